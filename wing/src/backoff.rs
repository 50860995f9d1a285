//! How long to wait before the next try: longer each time, and never all at once.

use std::time::Duration;

/// Waits that double up to a bound, each one jittered down to half.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `first` up to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The next wait. `random` in 0..=u32::MAX spreads those who were cut at one moment.
    pub(crate) fn wait(&mut self, random: u32) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        whole.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
    }

    /// Starts over after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Random bits for [`Backoff::wait`].
pub(crate) fn jitter() -> u32 {
    u32::from_le_bytes(wt_crypto::random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_start_over() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(300));

        assert_eq!(backoff.wait(u32::MAX), ms(100));
        assert_eq!(backoff.wait(0), ms(100));
        assert_eq!(backoff.wait(u32::MAX), ms(300));
        assert_eq!(backoff.wait(u32::MAX), ms(300));
        backoff.reset();
        assert_eq!(backoff.wait(0), ms(50));
    }
}
