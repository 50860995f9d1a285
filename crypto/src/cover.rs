//! When a client sends a record so that a watcher cannot count or time key presses
//! ([`crate::Padding::Strict`]).
//!
//! The first key press begins a block of ten seconds. In a block one record goes out in
//! each slot of 50 ms: what was typed since the last slot if anything was, and a cover
//! otherwise ([`crate::Sealer::seal_cover`]). A block in which something was typed is
//! followed by another, so a watcher sees only how many blocks there were, and when the
//! first began. A wing in strict mode answers each record of a slot after the full
//! [`wt_protocol::limits::ACK_DELAY`], a cover by a cover, so the echo does not show either.
//!
//! The cost is bounded: 20 records of 82 bytes a second each way while somebody types and
//! for at most 20 seconds after that, and nothing otherwise. A key press waits 25 ms on average.
//! A paste that does not fit the smallest record still shows its bucket.

use core::time::Duration;

/// Time between two records. The fastest typists press a key each 60 ms or so.
pub const SLOT: Duration = Duration::from_millis(50);

/// Slots of a block: ten seconds. Pauses within a line of typing are shorter.
const BLOCK_SLOTS: u32 = 200;

/// What goes out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Nothing: it is not time, or nobody types.
    Wait,
    /// What was typed, in one message.
    Input,
    /// A cover.
    Cover,
}

/// The slots of one session. Times are what one clock says since any fixed start.
#[derive(Debug, Clone, Default)]
pub struct Cover {
    block: Option<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    next: Duration,
    /// Slots that are left.
    left: u32,
    /// Whether something was typed in it.
    typed: bool,
}

impl Block {
    fn starting(at: Duration) -> Self {
        Self {
            next: at,
            left: BLOCK_SLOTS,
            typed: false,
        }
    }
}

impl Cover {
    /// Notes that there is something to send. The first time begins a block at once.
    pub fn typed(&mut self, now: Duration) {
        let block = self.block.get_or_insert_with(|| Block::starting(now));
        block.typed = true;
    }

    /// When to ask [`Self::slot`] again; never, while nobody types.
    pub fn next_slot(&self) -> Option<Duration> {
        self.block.map(|block| block.next)
    }

    /// What goes out now. `has_input` says whether something typed waits.
    ///
    /// A sender that is late leaves slots out and makes up for none, so that a stall does
    /// not become a burst.
    pub fn slot(&mut self, now: Duration, has_input: bool) -> Slot {
        if has_input {
            self.typed(now);
        }
        let Some(block) = &mut self.block else {
            return Slot::Wait;
        };
        if now < block.next {
            return Slot::Wait;
        }
        let missed = (now - block.next).as_nanos() / SLOT.as_nanos();
        let passed = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
        block.next += SLOT * passed.min(block.left.max(1));
        block.left = block.left.saturating_sub(passed);
        if block.left == 0 {
            let next = block.next.max(now);
            self.block = block.typed.then(|| Block::starting(next));
        }
        if has_input { Slot::Input } else { Slot::Cover }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_sees_the_same_records_whatever_is_typed_in_a_block() {
        let one_key = records(&[0]);
        let fast: Vec<u64> = (0..9_000).step_by(60).collect();
        let slow = [0, 1_234, 7_777, 9_949];

        assert_eq!(one_key.len(), 2 * BLOCK_SLOTS as usize);
        assert_eq!(times(&records(&fast)), times(&one_key));
        assert_eq!(times(&records(&slow)), times(&one_key));
        assert!(one_key.windows(2).all(|pair| pair[1].0 - pair[0].0 == 50));
    }

    #[test]
    fn everything_that_is_typed_goes_out_within_a_slot() {
        let typed = [0, 10, 49, 51, 400, 9_999];

        let sent: Vec<u64> = records(&typed)
            .into_iter()
            .filter(|(_, slot)| *slot == Slot::Input)
            .map(|(at, _)| at)
            .collect();

        assert_eq!(sent, [0, 50, 100, 400, 10_000]);
    }

    #[test]
    fn nothing_is_sent_while_nobody_types() {
        let mut cover = Cover::default();

        assert_eq!(cover.next_slot(), None);
        assert_eq!(cover.slot(Duration::from_secs(5), false), Slot::Wait);
        let all = records(&[0]);
        assert_eq!(all.last().map(|(at, _)| *at), Some(19_950));
    }

    #[test]
    fn a_stall_leaves_slots_out_and_makes_up_for_none() {
        let mut cover = Cover::default();
        cover.typed(Duration::ZERO);
        assert_eq!(cover.slot(Duration::ZERO, true), Slot::Input);

        let late = Duration::from_millis(1_010);
        assert_eq!(cover.slot(late, false), Slot::Cover);
        assert_eq!(cover.slot(late, false), Slot::Wait);
        assert_eq!(cover.next_slot(), Some(Duration::from_millis(1_050)));

        let much_later = Duration::from_secs(3_600);
        assert_eq!(cover.slot(much_later, false), Slot::Cover);
        assert_eq!(cover.next_slot(), Some(much_later));
    }

    /// What goes out when keys are pressed at these milliseconds.
    fn records(typed: &[u64]) -> Vec<(u64, Slot)> {
        let (mut cover, mut out) = (Cover::default(), Vec::new());
        let mut waiting = false;
        for at in 0..60_000 {
            let now = Duration::from_millis(at);
            if typed.contains(&at) {
                cover.typed(now);
                waiting = true;
            }
            match cover.slot(now, waiting) {
                Slot::Wait => {}
                slot => {
                    out.push((at, slot));
                    waiting = false;
                }
            }
        }
        out
    }

    fn times(records: &[(u64, Slot)]) -> Vec<u64> {
        records.iter().map(|(at, _)| *at).collect()
    }
}
