//! Who waits to be let in, and by which code.
//!
//! The code is the six digits that client and wing compare, so whoever types it at the
//! wing has compared them. Somebody between the two would have to come again and again
//! until his digits are those that the user reads: how often anybody may come, how many
//! wait at once and how often a code may be wrong are bounded.

use wt_protocol::access::{ClientKind, Passkey, WaitingRecord};
use wt_protocol::keys::{ClientKey, DeviceKey};

use crate::sas::Digits;

/// How long a code holds, in milliseconds.
pub const WAIT_LIFETIME_MS: u64 = 10 * 60 * 1_000;

/// Who may wait at once. A person lets in one machine at a time.
const MAX_WAITING: usize = 8;

/// Waits that may begin in an hour, over all clients: each is one chance in a million for
/// somebody in between.
const MAX_BEGUN: usize = 20;

/// Wrong codes in an hour.
const MAX_WRONG: usize = 5;

/// How long waits and wrong codes count, in milliseconds.
const WINDOW_MS: u64 = 60 * 60 * 1_000;

/// A client that waits, or a passkey of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The client's key.
    pub client: ClientKey,
    /// The device that vouched for it, if one did.
    pub device: Option<DeviceKey>,
    /// What it calls itself.
    pub name: String,
    /// Where its program came from.
    pub kind: ClientKind,
    /// The account whose grant it has, if it has one.
    pub account: Option<String>,
    /// What it waits for.
    pub wants: Wants,
    /// The code.
    pub code: Digits,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// To be put on the list.
    Entry,
    /// That this passkey is.
    Passkey(Box<Passkey>),
}

/// Nobody else may wait just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// As many wait as may.
    #[error("{MAX_WAITING} clients wait to be let in, which is the most")]
    Full,
    /// Too many began to wait within an hour.
    #[error("more than {MAX_BEGUN} clients asked to be let in within an hour")]
    TooMany,
}

/// Why a code lets nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Nobody waits with it.
    #[error(
        "nobody waits with this code; if the other machine shows it now, \
         something sits between the two"
    )]
    Unknown,
    /// More than one waits with it, which is no chance. All of them were sent away.
    #[error("more than one client waits with this code; start again")]
    Ambiguous,
    /// Too many codes were wrong.
    #[error("{MAX_WRONG} codes were wrong within an hour; wait, or allow the client by its key")]
    TooManyWrong,
}

/// Who waits at a wing. In memory: a restart sends all away.
#[derive(Debug, Default)]
pub struct Waiting {
    waiters: Vec<Waiter>,
    begun_ms: Vec<u64>,
    wrong_ms: Vec<u64>,
}

impl Waiting {
    /// Asks whether a client may begin to wait, and counts it. Ask before the comparison
    /// of digits begins.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn begin(&mut self, client: &ClientKey, now_ms: u64) -> Result<(), WaitError> {
        self.expire(now_ms);
        let others = self.waiters.iter().filter(|w| w.client != *client).count();
        if others >= MAX_WAITING {
            return Err(WaitError::Full);
        }
        if self.begun_ms.len() >= MAX_BEGUN {
            return Err(WaitError::TooMany);
        }
        self.begun_ms.push(now_ms);
        Ok(())
    }

    /// Lets a client wait, in place of what it waited for before.
    ///
    /// # Errors
    /// [`WaitError::Full`].
    pub fn wait(&mut self, waiter: Waiter) -> Result<(), WaitError> {
        self.leave(&waiter.client);
        if self.waiters.len() >= MAX_WAITING {
            return Err(WaitError::Full);
        }
        self.waiters.push(waiter);
        Ok(())
    }

    /// Takes note that a client is gone.
    pub fn leave(&mut self, client: &ClientKey) {
        self.waiters.retain(|waiter| waiter.client != *client);
    }

    /// Takes out the one who waits with this code.
    ///
    /// # Errors
    /// See [`CodeError`].
    pub fn approve(&mut self, typed: &str, now_ms: u64) -> Result<Waiter, CodeError> {
        self.expire(now_ms);
        if self.wrong_ms.len() >= MAX_WRONG {
            return Err(CodeError::TooManyWrong);
        }
        let (mut matching, others): (Vec<_>, Vec<_>) = self
            .waiters
            .drain(..)
            .partition(|waiter| waiter.code.matches(typed));
        self.waiters = others;
        match (matching.pop(), matching.is_empty()) {
            (Some(waiter), true) => Ok(waiter),
            (Some(_), false) => Err(CodeError::Ambiguous),
            (None, _) => {
                self.wrong_ms.push(now_ms);
                Err(CodeError::Unknown)
            }
        }
    }

    /// Sends all away: when the wing is locked.
    pub fn send_away(&mut self) {
        self.waiters.clear();
    }

    /// Who waits, oldest first, without the codes.
    pub fn list(&mut self, now_ms: u64) -> Vec<WaitingRecord> {
        self.expire(now_ms);
        self.waiters
            .iter()
            .map(|waiter| WaitingRecord {
                client: waiter.client,
                name: waiter.name.clone(),
                account: waiter.account.clone(),
                passkey: matches!(waiter.wants, Wants::Passkey(_)),
                since_ms: waiter.since_ms,
            })
            .collect()
    }

    fn expire(&mut self, now_ms: u64) {
        self.waiters
            .retain(|waiter| now_ms < waiter.since_ms.saturating_add(WAIT_LIFETIME_MS));
        for times in [&mut self.begun_ms, &mut self.wrong_ms] {
            times.retain(|&at| now_ms < at.saturating_add(WINDOW_MS));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;
    use crate::keys::ClientSecret;
    use crate::sas::CompareWing;

    #[test]
    fn a_code_lets_in_the_one_who_waits_with_it() {
        let mut waiting = Waiting::default();
        for number in [1, 2] {
            waiting.begin(&client(number), 10).unwrap();
            waiting.wait(waiter(number, 10)).unwrap();
        }

        let code = waiter(2, 10).code.to_string();
        assert_eq!(waiting.approve(&code, 11), Ok(waiter(2, 10)));
        assert_eq!(waiting.approve(&code, 12), Err(CodeError::Unknown));
        assert_eq!(waiting.list(13).len(), 1);
        waiting.leave(&client(1));
        assert!(waiting.list(14).is_empty());
    }

    #[test]
    fn a_code_ends_after_ten_minutes_and_two_of_one_code_are_sent_away() {
        let mut waiting = Waiting::default();
        waiting.wait(waiter(1, 0)).unwrap();
        let code = waiter(1, 0).code.to_string();
        assert_eq!(
            waiting.approve(&code, WAIT_LIFETIME_MS),
            Err(CodeError::Unknown)
        );

        let twin = Waiter {
            client: client(2),
            ..waiter(1, 0)
        };
        waiting.wait(waiter(1, 0)).unwrap();
        waiting.wait(twin).unwrap();
        assert_eq!(waiting.approve(&code, 1), Err(CodeError::Ambiguous));
        assert!(waiting.list(1).is_empty());
    }

    #[test]
    fn wrong_codes_are_counted_for_an_hour() {
        let mut waiting = Waiting::default();
        waiting.wait(waiter(1, WINDOW_MS)).unwrap();
        let code = waiter(1, 0).code.to_string();
        for at in 0..MAX_WRONG {
            let wrong = waiting.approve("no code", at as u64);
            assert_eq!(wrong, Err(CodeError::Unknown));
        }

        let last = MAX_WRONG as u64;
        assert_eq!(waiting.approve(&code, last), Err(CodeError::TooManyWrong));
        assert!(waiting.approve(&code, WINDOW_MS).is_ok());
    }

    #[test]
    fn who_waits_and_how_often_somebody_comes_is_bounded() {
        let mut waiting = Waiting::default();
        for number in 1..=MAX_WAITING {
            waiting.wait(waiter(number as u8, 0)).unwrap();
        }
        assert_eq!(waiting.begin(&client(99), 1), Err(WaitError::Full));
        assert_eq!(waiting.wait(waiter(99, 1)), Err(WaitError::Full));
        for _ in 0..MAX_BEGUN {
            waiting.begin(&client(1), 1).unwrap();
            waiting.wait(waiter(1, 1)).unwrap();
        }
        assert_eq!(waiting.begin(&client(1), 2), Err(WaitError::TooMany));
        assert_eq!(waiting.begin(&client(1), 1 + WINDOW_MS), Ok(()));
        waiting.send_away();
        assert!(waiting.list(2).is_empty());
    }

    pub(crate) fn waiter(number: u8, since_ms: u64) -> Waiter {
        let (wing, _) = CompareWing::start([number; 32], [1; 32]);
        Waiter {
            client: client(number),
            device: None,
            name: format!("laptop {number}"),
            kind: ClientKind::Cli,
            account: Some("ada".to_owned()),
            wants: Wants::Entry,
            code: wing.open(&[2; 32]).0,
            since_ms,
        }
    }

    fn client(number: u8) -> ClientKey {
        ClientSecret::from_bytes(&[number; 32]).public()
    }
}
