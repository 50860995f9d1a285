//! A token bucket to which time is passed in.

use core::time::Duration;

/// Allows a rate in the long run and a burst after a pause.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// In billionths of a token, so that no time is ever rounded away.
    level: u128,
    /// When `level` was true.
    at: Duration,
}

const TOKEN: u128 = 1_000_000_000;

impl Bucket {
    pub(crate) fn full(burst: u32, now: Duration) -> Self {
        Self {
            level: u128::from(burst) * TOKEN,
            at: now,
        }
    }

    /// Takes one token if there is one.
    pub(crate) fn take(&mut self, per_second: u32, burst: u32, now: Duration) -> bool {
        self.fill(per_second, burst, now);
        if self.level < TOKEN {
            return false;
        }
        self.level -= TOKEN;
        true
    }

    /// Whether nothing was taken that time has not given back.
    pub(crate) fn is_full(&mut self, per_second: u32, burst: u32, now: Duration) -> bool {
        self.fill(per_second, burst, now);
        self.level == u128::from(burst) * TOKEN
    }

    fn fill(&mut self, per_second: u32, burst: u32, now: Duration) {
        // A clock that went back gives nothing.
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let gained = passed.as_nanos().saturating_mul(per_second.into());
        self.level = self
            .level
            .saturating_add(gained)
            .min(u128::from(burst) * TOKEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut bucket = Bucket::full(3, ms(0));

        let at_once = (0..5).filter(|_| bucket.take(10, 3, ms(0))).count();

        assert_eq!(at_once, 3);
        assert!(!bucket.take(10, 3, ms(99)));
        assert!(bucket.take(10, 3, ms(100)));
        assert!(!bucket.take(10, 3, ms(100)));
    }

    #[test]
    fn time_that_goes_back_gives_nothing_and_takes_nothing() {
        let mut bucket = Bucket::full(1, ms(1_000));
        assert!(bucket.take(1, 1, ms(1_000)));

        assert!(!bucket.take(1, 1, ms(0)));
        assert!(!bucket.take(1, 1, ms(1_000)));
        assert!(bucket.take(1, 1, ms(2_000)));
    }

    #[test]
    fn a_pause_of_years_fills_the_bucket_and_no_more() {
        let mut bucket = Bucket::full(2, ms(0));
        assert!(bucket.take(u32::MAX, 2, ms(0)));

        assert!(bucket.is_full(u32::MAX, 2, Duration::MAX));
        assert!(bucket.take(1, 2, Duration::MAX));
        assert!(bucket.take(1, 2, Duration::MAX));
        assert!(!bucket.take(1, 2, Duration::MAX));
    }
}
