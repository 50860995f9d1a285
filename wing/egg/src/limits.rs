//! How long a session may live when nobody uses it.
//!
//! A session is in use while somebody is attached, something is typed into it or printed
//! by it, or its programs compute. Only one that did none of that for the whole time is
//! ended, so a build that prints nothing is spared, and so is an agent that thinks.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Computing less than this share of one core counts as waiting: idle editors, shells and
/// agents wake up now and then and use a tenth of it.
const WAITING_SHARE: u32 = 100;

/// How often a session is looked at, at most and at least. A look reads one small file for
/// each process of the machine.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(60);

/// How many looks go into the time that a session may be idle, so that one that just
/// became idle lives a tenth of that time longer at most.
const LOOKS: u32 = 10;

/// A session that is past its lifetime is ended when it was idle for this long.
const LAST_QUIET: Duration = Duration::from_secs(60);

/// The step in which the kernel counts computing time, on every Linux (`USER_HZ`).
pub(crate) const CLOCK_TICK: Duration = Duration::from_millis(10);

/// How long a session may live. Nothing is limited by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LifeLimits {
    /// How long it may be idle.
    pub idle: Option<Duration>,
    /// How long it may live in all; it is ended when it is idle after that.
    pub lifetime: Option<Duration>,
}

/// What a look at a session saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) now: Instant,
    /// Whether somebody is attached.
    pub(crate) attached: bool,
    /// When something was typed or printed last, or a client left.
    pub(crate) active_at: Instant,
    /// Computing time of its programs in all.
    pub(crate) computed: Duration,
}

/// What is to be done after a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look again then.
    At(Instant),
    /// End the session, for this reason.
    End(String),
}

/// Decides when a session is ended. Pure.
#[derive(Debug)]
pub(crate) struct Life {
    limits: LifeLimits,
    started: Instant,
    idle_since: Instant,
    last: Look,
}

impl Life {
    /// A session that just started; none when nothing limits it.
    pub(crate) fn new(limits: LifeLimits, now: Instant) -> Option<Self> {
        (limits != LifeLimits::default()).then_some(Self {
            limits,
            started: now,
            idle_since: now,
            last: Look {
                now,
                attached: false,
                active_at: now,
                computed: Duration::ZERO,
            },
        })
    }

    /// Takes a look into account.
    pub(crate) fn look(&mut self, look: Look) -> Next {
        let since = look.now.duration_since(self.last.now);
        // Less than before: a process went, and its time with it. It did something until then.
        let computes = look
            .computed
            .checked_sub(self.last.computed)
            .is_none_or(|used| used >= (since / WAITING_SHARE).max(CLOCK_TICK));
        if look.attached || look.active_at > self.last.now || computes {
            self.idle_since = look.now;
        }
        self.last = look;
        let idle_for = look.now.duration_since(self.idle_since);
        let lived = look.now.duration_since(self.started);
        if let Some(limit) = self.limits.idle.filter(|limit| idle_for >= *limit) {
            return Next::End(format!(
                "it was ended after {} without use (limits.idle)",
                words(limit)
            ));
        }
        if let Some(limit) = self.limits.lifetime.filter(|limit| lived >= *limit)
            && idle_for >= limit.min(LAST_QUIET)
        {
            return Next::End(format!(
                "it was ended after its lifetime of {} (limits.lifetime)",
                words(limit)
            ));
        }
        Next::At(look.now + self.step(lived))
    }

    fn step(&self, lived: Duration) -> Duration {
        let step = |limit: Duration| (limit / LOOKS).clamp(OFTEN, SELDOM);
        let for_lifetime = self.limits.lifetime.map(|limit| {
            let left = limit.saturating_sub(lived);
            step(limit.min(LAST_QUIET)).max(left.saturating_sub(LAST_QUIET))
        });
        self.limits
            .idle
            .map(step)
            .into_iter()
            .chain(for_lifetime)
            .min()
            .unwrap_or(SELDOM)
    }
}

/// A time in its largest whole unit.
fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        s if s % 86_400 == 0 => format!("{} d", s / 86_400),
        s if s % 3_600 == 0 => format!("{} h", s / 3_600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A session whose looks come in equal steps.
    struct Session {
        life: Life,
        look: Look,
    }

    impl Session {
        fn new(limits: LifeLimits) -> Self {
            let now = Instant::now();
            let life = Life::new(limits, now).unwrap();
            let look = life.last;
            Self { life, look }
        }

        /// Lets time pass, with something done in each step; tells when it was ended.
        fn pass(&mut self, time: Duration, mut each: impl FnMut(&mut Look)) -> Option<String> {
            let end = self.look.now + time;
            while self.look.now < end {
                self.look.now += SECOND;
                each(&mut self.look);
                if let Next::End(why) = self.life.look(self.look) {
                    return Some(why);
                }
            }
            None
        }
    }

    fn idle(seconds: u64) -> LifeLimits {
        LifeLimits {
            idle: Some(Duration::from_secs(seconds)),
            lifetime: None,
        }
    }

    #[test]
    fn a_session_that_nobody_uses_is_ended_in_time() {
        let mut session = Session::new(idle(60));

        assert_eq!(session.pass(59 * SECOND, |_| {}), None);
        assert_eq!(
            session.pass(SECOND, |_| {}).unwrap(),
            "it was ended after 1 min without use (limits.idle)"
        );
    }

    #[test]
    fn whatever_is_a_use_spares_it() {
        type Use = (&'static str, fn(&mut Look));
        let uses: [Use; 4] = [
            ("attached", |look| look.attached = true),
            ("printing", |look| look.active_at = look.now),
            ("computing", |look| look.computed += SECOND / 50),
            ("ending a part", |look| {
                look.computed = look.computed.saturating_sub(CLOCK_TICK);
            }),
        ];
        for (what, using) in uses {
            let mut session = Session::new(idle(60));
            session.look.computed = 1_000 * SECOND;
            session.life.last.computed = session.look.computed;

            assert_eq!(session.pass(300 * SECOND, using), None, "{what}");
            session.look.attached = false;
            assert_eq!(session.pass(59 * SECOND, |_| {}), None, "{what}");
            assert!(session.pass(2 * SECOND, |_| {}).is_some(), "{what}");
        }
    }

    #[test]
    fn a_program_that_only_blinks_its_cursor_is_not_busy() {
        let mut session = Session::new(idle(60));

        let ended = session.pass(60 * SECOND, |look| look.computed += SECOND / 1_000);

        assert!(ended.is_some());
    }

    #[test]
    fn after_its_lifetime_a_session_ends_at_its_first_rest() {
        let limits = LifeLimits {
            idle: None,
            lifetime: Some(600 * SECOND),
        };
        let mut session = Session::new(limits);

        assert_eq!(session.pass(599 * SECOND, |_| {}), None);
        assert_eq!(
            session.pass(SECOND, |_| {}).unwrap(),
            "it was ended after its lifetime of 10 min (limits.lifetime)"
        );
        let mut busy = Session::new(limits);
        assert_eq!(
            busy.pass(900 * SECOND, |look| look.computed += SECOND / 2),
            None
        );
        assert_eq!(busy.pass(59 * SECOND, |_| {}), None);
        assert!(busy.pass(2 * SECOND, |_| {}).is_some());
    }

    #[test]
    fn looks_are_as_seldom_as_the_limits_allow() {
        let step = |idle: Option<u64>, lifetime: Option<u64>, lived: u64| {
            let limits = LifeLimits {
                idle: idle.map(Duration::from_secs),
                lifetime: lifetime.map(Duration::from_secs),
            };
            let life = Life::new(limits, Instant::now()).unwrap();
            life.step(Duration::from_secs(lived))
        };

        assert_eq!(step(Some(1), None, 0), OFTEN);
        assert_eq!(step(Some(86_400), None, 0), SELDOM);
        assert_eq!(step(None, Some(86_400), 0), Duration::from_secs(86_340));
        assert_eq!(step(None, Some(86_400), 90_000), Duration::from_secs(6));
        assert_eq!(step(Some(60), Some(86_400), 0), Duration::from_secs(6));
        assert!(Life::new(LifeLimits::default(), Instant::now()).is_none());
    }
}
