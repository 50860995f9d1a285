//! What is measured, one file for each scenario.

pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod sealed;
pub(crate) mod stalled;
pub(crate) mod throughput;
