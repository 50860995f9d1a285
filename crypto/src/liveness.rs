//! When to ask the other end for a sign of life, and when a session is dead.
//!
//! Only a pong with this end's own fresh bytes counts, and it counts from when its
//! ping was sent: a relay that holds records back cannot make an old one look new.
//! So nothing that was under way for longer than the deadline is ever applied, as
//! long as [`Liveness::is_dead`] is asked before each record is.

use core::time::Duration;
use std::collections::VecDeque;

use wt_protocol::limits::{PING_DEADLINE, PING_INTERVAL};

/// The signs of life of one session, at one end of it.
///
/// Times are what one clock says since any fixed start. The clock must go on while
/// the machine sleeps (`CLOCK_BOOTTIME`), so that a sleeper finds its sessions dead.
#[derive(Debug, Clone)]
pub struct Liveness {
    interval: Duration,
    deadline: Duration,
    /// When the other end was last known to live: the sending of the newest answered ping.
    proved: Duration,
    asked: Duration,
    /// Pings without an answer, oldest first; the deadline bounds how many.
    open: VecDeque<(Duration, [u8; 16])>,
}

impl Liveness {
    /// Starts with a finished handshake, which is a sign of life.
    pub fn new(now: Duration) -> Self {
        Self::with_times(now, PING_INTERVAL, PING_DEADLINE)
    }

    /// As [`Self::new`], with other times than the protocol's.
    pub fn with_times(now: Duration, interval: Duration, deadline: Duration) -> Self {
        Self {
            interval,
            deadline,
            proved: now,
            asked: now,
            open: VecDeque::new(),
        }
    }

    /// Whether the session must be given up. Ask before anything in it is applied.
    pub fn is_dead(&self, now: Duration) -> bool {
        now.saturating_sub(self.proved) >= self.deadline
    }

    /// Whether a ping is due.
    pub fn is_ping_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.asked) >= self.interval
    }

    /// Notes that a ping with these fresh random bytes was sent.
    pub fn pinged(&mut self, now: Duration, bytes: [u8; 16]) {
        self.asked = now;
        self.open.push_back((now, bytes));
    }

    /// Takes a pong. Returns whether it answers a ping of this end.
    pub fn pong(&mut self, bytes: &[u8; 16]) -> bool {
        let Some(at) = self.open.iter().position(|(_, sent)| sent == bytes) else {
            return false;
        };
        if let Some((sent_at, _)) = self.open.drain(..=at).next_back() {
            self.proved = sent_at;
        }
        true
    }

    /// When to look again: for the next ping or for the end, whichever is first.
    pub fn next_wake(&self) -> Duration {
        (self.asked + self.interval).min(self.proved + self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_session_whose_pings_are_answered_lives() {
        let mut liveness = Liveness::new(s(100));

        for round in 1..100u8 {
            let due = liveness.next_wake();
            assert_eq!(due, s(100 + 15 * u64::from(round)));
            assert!(liveness.is_ping_due(due) && !liveness.is_dead(due));
            liveness.pinged(due, [round; 16]);
            assert!(!liveness.is_ping_due(due));
            assert!(liveness.pong(&[round; 16]));
        }
    }

    #[test]
    fn a_session_without_answers_is_dead_after_the_deadline() {
        let mut liveness = Liveness::new(s(0));
        liveness.pinged(s(15), [1; 16]);
        liveness.pinged(s(30), [2; 16]);

        assert_eq!(liveness.next_wake(), s(40));
        assert!(!liveness.is_dead(s(39)));
        assert!(liveness.is_dead(s(40)));
    }

    #[test]
    fn a_late_answer_counts_from_its_ping() {
        let mut liveness = Liveness::new(s(0));
        liveness.pinged(s(15), [1; 16]);

        assert!(liveness.pong(&[1; 16]));

        assert!(!liveness.is_dead(s(54)));
        assert!(liveness.is_dead(s(55)));
    }

    #[test]
    fn foreign_and_repeated_pongs_are_no_sign_of_life() {
        let mut liveness = Liveness::new(s(0));
        liveness.pinged(s(15), [1; 16]);
        liveness.pinged(s(30), [2; 16]);

        assert!(!liveness.pong(&[9; 16]));
        assert!(liveness.pong(&[2; 16]));
        assert!(!liveness.pong(&[2; 16]));
        assert!(
            !liveness.pong(&[1; 16]),
            "an older ping is closed by a newer pong"
        );
        assert!(liveness.is_dead(s(70)));
    }

    #[test]
    fn a_machine_that_slept_past_the_deadline_finds_the_session_dead() {
        let mut liveness = Liveness::new(s(0));
        liveness.pinged(s(15), [1; 16]);
        assert!(liveness.pong(&[1; 16]));

        assert!(!liveness.is_dead(s(16)));
        assert!(liveness.is_dead(s(3_600)));
    }

    #[test]
    fn a_clock_that_goes_back_kills_nothing() {
        let liveness = Liveness::new(s(100));

        assert!(!liveness.is_dead(s(0)));
        assert!(!liveness.is_ping_due(s(0)));
    }
}
