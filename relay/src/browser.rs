//! Signed-in browsers, as a core: single-use secrets that become cookies.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::accounts::AccountId;
use crate::secrets::{SECRET_LENGTH, secret_text, sha256};

/// How long a sign-in link holds: it is opened at once or not at all.
pub(crate) const LINK_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// How long a browser stays signed in: a working day.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Links that wait at once; a further one replaces the oldest. People open one.
const MAX_LINKS: usize = 32;

/// Browsers signed in at once; a further one signs out the oldest. Each costs 100 bytes.
const MAX_SESSIONS: usize = 1_000;

/// Links and sessions, by the digests of their secrets.
#[derive(Debug, Default)]
pub(crate) struct Browsers {
    links: HashMap<[u8; 32], Entry>,
    sessions: HashMap<[u8; 32], Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    account: AccountId,
    expires_at: SystemTime,
}

impl Browsers {
    /// Makes the secret of a sign-in link.
    pub(crate) fn new_link(
        &mut self,
        account: AccountId,
        now: SystemTime,
        random: [u8; SECRET_LENGTH],
    ) -> String {
        let expires_at = now + LINK_LIFETIME;
        insert(&mut self.links, MAX_LINKS, account, expires_at, now, random)
    }

    /// Turns a link's secret into a cookie's, once.
    pub(crate) fn redeem(
        &mut self,
        secret: &str,
        now: SystemTime,
        random: [u8; SECRET_LENGTH],
    ) -> Option<String> {
        let link = self.links.remove(&sha256(secret.as_bytes()))?;
        if now >= link.expires_at {
            return None;
        }
        let expires_at = now + SESSION_LIFETIME;
        let sessions = &mut self.sessions;
        Some(insert(
            sessions,
            MAX_SESSIONS,
            link.account,
            expires_at,
            now,
            random,
        ))
    }

    /// The account behind a cookie.
    pub(crate) fn account(&self, cookie: &str, now: SystemTime) -> Option<AccountId> {
        self.sessions
            .get(&sha256(cookie.as_bytes()))
            .filter(|s| now < s.expires_at)
            .map(|s| s.account.clone())
    }

    /// Ends a browser's session.
    pub(crate) fn sign_out(&mut self, cookie: &str) {
        self.sessions.remove(&sha256(cookie.as_bytes()));
    }
}

fn insert(
    entries: &mut HashMap<[u8; 32], Entry>,
    max: usize,
    account: AccountId,
    expires_at: SystemTime,
    now: SystemTime,
    random: [u8; SECRET_LENGTH],
) -> String {
    entries.retain(|_, e| now < e.expires_at);
    if entries.len() >= max {
        let oldest = entries
            .iter()
            .min_by_key(|(_, e)| e.expires_at)
            .map(|(key, _)| *key);
        if let Some(key) = oldest {
            entries.remove(&key);
        }
    }
    let secret = secret_text(random);
    entries.insert(
        sha256(secret.as_bytes()),
        Entry {
            account,
            expires_at,
        },
    );
    secret
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_link_signs_one_browser_in_once() {
        let mut browsers = Browsers::default();
        let secret = browsers.new_link(AccountId::local(), at(0), [1; 32]);

        let cookie = browsers.redeem(&secret, at(1), [2; 32]).unwrap();

        assert_eq!(browsers.account(&cookie, at(1)), Some(AccountId::local()));
        assert_eq!(browsers.redeem(&secret, at(1), [3; 32]), None);
        assert_eq!(browsers.account(&secret, at(1)), None);
    }

    #[test]
    fn links_and_sessions_run_out_and_sign_out_ends_one() {
        let mut browsers = Browsers::default();
        let late = browsers.new_link(AccountId::local(), at(0), [1; 32]);
        assert_eq!(browsers.redeem(&late, at(300), [2; 32]), None);
        let good = browsers.new_link(AccountId::local(), at(0), [3; 32]);
        let cookie = browsers.redeem(&good, at(299), [4; 32]).unwrap();
        let end = 299 + SESSION_LIFETIME.as_secs();

        assert!(browsers.account(&cookie, at(end - 1)).is_some());
        assert_eq!(browsers.account(&cookie, at(end)), None);
        browsers.sign_out(&cookie);
        assert_eq!(browsers.account(&cookie, at(300)), None);
    }

    #[test]
    fn the_oldest_link_gives_way_to_a_new_one() {
        let mut browsers = Browsers::default();
        let secrets: Vec<String> = (0..=MAX_LINKS)
            .map(|n| browsers.new_link(AccountId::local(), at(n as u64), [n as u8; 32]))
            .collect();

        assert_eq!(browsers.links.len(), MAX_LINKS);
        assert_eq!(browsers.redeem(&secrets[0], at(50), [99; 32]), None);
        assert!(browsers.redeem(&secrets[1], at(50), [99; 32]).is_some());
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
    }
}
