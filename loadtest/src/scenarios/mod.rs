//! What is measured, one file for each scenario.

pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod screen;
pub(crate) mod sealed;
pub(crate) mod sessions;
pub(crate) mod stalled;
pub(crate) mod throughput;
pub(crate) mod tmux;

use std::time::Duration;

use serde::Serialize;

/// How much the scenarios of local sessions do. MB is 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Sizes {
    /// Sessions that idle.
    pub(crate) idle: usize,
    /// How long they are looked at.
    #[serde(serialize_with = "as_seconds")]
    pub(crate) idle_seconds: Duration,
    /// Sessions in the list.
    pub(crate) listed: usize,
    /// Bytes of a flood.
    pub(crate) flood: u64,
    /// Keys pressed in a round.
    pub(crate) keys: usize,
    /// Bytes of the file that is shown.
    pub(crate) cat: u64,
    /// Bytes that a terminal model takes.
    pub(crate) stream: u64,
}

impl Sizes {
    /// Sizes for figures that count.
    pub(crate) const FULL: Self = Self {
        idle: 50,
        idle_seconds: Duration::from_secs(10),
        listed: 200,
        flood: 1_000_000_000,
        keys: 500,
        cat: 500_000_000,
        stream: 100_000_000,
    };

    /// The smallest sizes with which everything is still done.
    pub(crate) const QUICK: Self = Self {
        idle: 3,
        idle_seconds: Duration::from_millis(200),
        listed: 6,
        flood: 1_000_000,
        keys: 20,
        cat: 1_000_000,
        stream: 200_000,
    };

    /// The same with another size of everything that flows.
    pub(crate) fn flowing(self, bytes: u64) -> Self {
        Self {
            flood: bytes,
            cat: bytes,
            stream: bytes,
            ..self
        }
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(time.as_secs_f64())
}
