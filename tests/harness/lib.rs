//! What the end-to-end tests share: real programs, real terminals, bad networks.
//!
//! Every piece waits on events and gives up after a stated time with a message that
//! says what it waited for, so that a fault is a failed test and never a hang. A test
//! owns all that it starts: profiles, terminals, relays and proxies end when dropped.
//!
//! Nothing here knows how the programs work inside. The harness starts the same
//! binaries as a user does, with a hermetic environment, and reads their output.
#![forbid(unsafe_code)]

pub mod canary;
pub mod process;
pub mod profile;
pub mod proxy;
pub mod relay;
pub mod terminal;
pub mod wait;
pub mod world;

pub use canary::{Found, Needles};
pub use profile::{Profile, Run};
pub use proxy::{FaultProxy, Faults};
pub use relay::Relay;
pub use terminal::Terminal;
pub use wait::{PATIENCE, eventually};
pub use world::World;
