//! How long the tests wait, and how they wait for what sends no event.

use std::time::{Duration, Instant};

/// How long a test waits for one thing before it fails.
///
/// Far above what anything takes on an idle machine, because two cores may be shared
/// by a dozen tests; far below the runner's own limit, so that the message is ours.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a state that sends no event is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks at a state until it is there, and returns it.
///
/// # Panics
/// When it is not there after [`PATIENCE`]; the message is `what`.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

/// Like [`eventually`], with a bound that the test is about.
///
/// # Panics
/// When the state is not there in time.
#[track_caller]
pub fn eventually_within<T>(bound: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            start.elapsed() < bound,
            "waited {bound:?} in vain for: {what}"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_comes_later_is_found() {
        let mut looks = 0;

        let found = eventually("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });

        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "in vain for: nothing")]
    fn a_state_that_never_comes_fails_by_name() {
        eventually_within(Duration::from_millis(1), "nothing", || None::<()>);
    }
}
