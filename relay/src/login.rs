//! Device logins (RFC 8628), as a core: time and randomness are passed in.
//!
//! Pending logins live in memory only. A restart ends them and the device starts over.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use crate::accounts::AccountId;
use crate::secrets::{SECRET_LENGTH, secret_text, sha256};
use crate::store::Enrolment;

/// How long a code holds (RFC 8628 section 3.2 leaves it open; people need a minute).
pub(crate) const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Wrong codes that one account may type in [`CODE_LIFETIME`].
///
/// With 20^8 codes and at most [`MAX_PENDING`] of them live, a stranger with an account
/// hits another's login with a chance of 1 in 5 million for each ten minutes of trying.
pub(crate) const MAX_TRIES: u32 = 5;

/// Logins that may wait at once. Each costs under 1 KiB.
const MAX_PENDING: usize = 1_000;

/// Logins of one address that may wait at once: a fleet behind one NAT fits.
const MAX_PENDING_PER_ADDRESS: usize = 20;

/// Accounts whose wrong codes are counted at once; beyond it all must wait.
const MAX_COUNTED: usize = 10_000;

/// Letters of a code: no vowels, so no words; no letter that looks like a digit.
const ALPHABET: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// Letters of a code.
const CODE_LENGTH: usize = 8;

/// Random bytes that a code is drawn from. A byte over 239 is skipped so that all letters
/// are equally likely; 32 bytes leave 8 good ones but for a chance in 10^18.
pub(crate) const CODE_RANDOM: usize = 32;

/// Most characters of a device's name.
const MAX_DEVICE_NAME: usize = 64;

/// A code that a user types, in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UserCode(String);

impl UserCode {
    /// Reads what a user typed: any case, with or without hyphen and blanks.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let letters: String = text
            .chars()
            .filter(|c| !matches!(c, '-' | ' '))
            .map(|c| c.to_ascii_uppercase())
            .take(CODE_LENGTH + 1)
            .collect();
        let valid = letters.len() == CODE_LENGTH && letters.bytes().all(|b| ALPHABET.contains(&b));
        valid.then_some(Self(letters))
    }

    fn draw(random: [u8; CODE_RANDOM]) -> Option<Self> {
        let letters: String = random
            .iter()
            .filter(|b| usize::from(**b) < 240)
            .map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()]))
            .take(CODE_LENGTH)
            .collect();
        (letters.len() == CODE_LENGTH).then_some(Self(letters))
    }

    /// As it is shown: `BCDF-GHJK`.
    pub(crate) fn shown(&self) -> String {
        let (left, right) = self.0.split_at(CODE_LENGTH / 2);
        format!("{left}-{right}")
    }
}

/// Makes a device's own word for itself fit to be shown: bounded, one line, and free of
/// characters that could rearrange the page or terminal it is shown in.
pub(crate) fn clean_name(name: &str) -> String {
    let cleaned: String = name
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_.,+()@'".contains(*c))
        .take(MAX_DEVICE_NAME)
        .collect();
    match cleaned.trim() {
        "" => "unnamed".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// A login that just began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) device_code: String,
    pub(crate) user_code: UserCode,
}

/// Why no login began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartError {
    /// Too many of this address wait.
    AddressFull,
    /// Too many wait in all.
    Full,
}

/// What whoever decides should see of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) enrolment: Enrolment,
    pub(crate) address: IpAddr,
    pub(crate) since: SystemTime,
}

/// Why a code leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    /// No login waits under this code.
    #[error("no login waits for this code: it is mistyped, used or older than 10 minutes")]
    Unknown,
    /// The account typed too many wrong codes.
    #[error("too many wrong codes: wait 10 minutes")]
    TooManyTries,
}

/// What a polling device is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Polled {
    /// Nobody decided yet.
    Pending,
    /// It asked before its interval was over.
    SlowDown,
    /// The user refused.
    Denied,
    /// The code ran out, was used, or never was.
    Expired,
    /// The user approved; this answer is given once.
    Approved(AccountId, Box<Enrolment>),
}

#[derive(Debug)]
enum Decision {
    Open,
    Approved(AccountId),
    Denied,
}

#[derive(Debug)]
struct Login {
    user_code: UserCode,
    waiting: Waiting,
    last_poll: Option<SystemTime>,
    decision: Decision,
}

/// All pending logins.
#[derive(Debug)]
pub(crate) struct Logins {
    interval: Duration,
    /// By the digest of the device code, so that memory holds no usable secret.
    logins: HashMap<[u8; 32], Login>,
    /// Wrong codes of each account, and since when they are counted.
    tries: HashMap<AccountId, (u32, SystemTime)>,
}

impl Logins {
    /// Starts with none. Devices may poll once in `interval`.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            logins: HashMap::new(),
            tries: HashMap::new(),
        }
    }

    /// The least time between two polls.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Begins a login for a device that asked from this address.
    pub(crate) fn start(
        &mut self,
        enrolment: Enrolment,
        address: IpAddr,
        now: SystemTime,
        device_random: [u8; SECRET_LENGTH],
        mut draw: impl FnMut() -> [u8; CODE_RANDOM],
    ) -> Result<Started, StartError> {
        self.forget_old(now);
        let block = block(address);
        let of_address = self
            .logins
            .values()
            .filter(|l| self::block(l.waiting.address) == block)
            .count();
        if of_address >= MAX_PENDING_PER_ADDRESS {
            return Err(StartError::AddressFull);
        }
        if self.logins.len() >= MAX_PENDING {
            return Err(StartError::Full);
        }
        let user_code = loop {
            match UserCode::draw(draw()) {
                Some(code) if self.find(&code).is_none() => break code,
                _ => {}
            }
        };
        let device_code = secret_text(device_random);
        self.logins.insert(
            sha256(device_code.as_bytes()),
            Login {
                user_code: user_code.clone(),
                waiting: Waiting {
                    enrolment,
                    address,
                    since: now,
                },
                last_poll: None,
                decision: Decision::Open,
            },
        );
        Ok(Started {
            device_code,
            user_code,
        })
    }

    /// The open login under a code. A wrong code counts against the account that typed it.
    pub(crate) fn look_up(
        &mut self,
        by: &AccountId,
        code: Option<&UserCode>,
        now: SystemTime,
    ) -> Result<Waiting, CodeError> {
        self.open_login(by, code, now).map(|l| l.waiting.clone())
    }

    /// Approves the login under a code for an account.
    pub(crate) fn approve(
        &mut self,
        account: &AccountId,
        code: Option<&UserCode>,
        now: SystemTime,
    ) -> Result<(), CodeError> {
        let login = self.open_login(account, code, now)?;
        login.decision = Decision::Approved(account.clone());
        Ok(())
    }

    /// Refuses the login under a code.
    pub(crate) fn deny(
        &mut self,
        by: &AccountId,
        code: Option<&UserCode>,
        now: SystemTime,
    ) -> Result<(), CodeError> {
        let login = self.open_login(by, code, now)?;
        login.decision = Decision::Denied;
        Ok(())
    }

    /// Answers a device that waits.
    pub(crate) fn poll(&mut self, device_code: &str, now: SystemTime) -> Polled {
        self.forget_old(now);
        let key = sha256(device_code.as_bytes());
        let Some(login) = self.logins.get_mut(&key) else {
            return Polled::Expired;
        };
        let too_soon = login
            .last_poll
            .is_some_and(|last| now.duration_since(last).unwrap_or_default() < self.interval);
        if too_soon {
            return Polled::SlowDown;
        }
        login.last_poll = Some(now);
        if matches!(login.decision, Decision::Open) {
            return Polled::Pending;
        }
        let login = self.logins.remove(&key).expect("it was found above");
        match login.decision {
            Decision::Approved(account) => {
                Polled::Approved(account, Box::new(login.waiting.enrolment))
            }
            Decision::Denied | Decision::Open => Polled::Denied,
        }
    }

    fn open_login(
        &mut self,
        by: &AccountId,
        code: Option<&UserCode>,
        now: SystemTime,
    ) -> Result<&mut Login, CodeError> {
        self.forget_old(now);
        if self.tries.get(by).is_some_and(|(n, _)| *n >= MAX_TRIES) {
            return Err(CodeError::TooManyTries);
        }
        let Some(key) = code.and_then(|c| self.find(c)) else {
            if self.tries.len() >= MAX_COUNTED && !self.tries.contains_key(by) {
                return Err(CodeError::TooManyTries);
            }
            self.tries.entry(by.clone()).or_insert((0, now)).0 += 1;
            return Err(CodeError::Unknown);
        };
        Ok(self.logins.get_mut(&key).expect("it was found above"))
    }

    fn find(&self, code: &UserCode) -> Option<[u8; 32]> {
        self.logins
            .iter()
            .find(|(_, l)| l.user_code == *code && matches!(l.decision, Decision::Open))
            .map(|(key, _)| *key)
    }

    fn forget_old(&mut self, now: SystemTime) {
        // A clock that went back makes entries live longer, never shorter.
        let old = |since: SystemTime| {
            now.duration_since(since)
                .is_ok_and(|age| age >= CODE_LIFETIME)
        };
        self.logins.retain(|_, l| !old(l.waiting.since));
        self.tries.retain(|_, (_, since)| !old(*since));
    }
}

/// What counts as one address: an IPv6 customer has a whole /64.
pub(crate) fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let s = v6.segments();
            IpAddr::V6(Ipv6Addr::new(s[0], s[1], s[2], s[3], 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::UNIX_EPOCH;

    use wt_protocol::keys::{ClientKey, DeviceKey, Signature};

    use super::*;

    #[test]
    fn an_approved_login_is_given_out_once() {
        let mut logins = logins();
        let started = start(&mut logins, 1, at(0)).unwrap();
        let code = Some(&started.user_code);

        assert_eq!(logins.poll(&started.device_code, at(1)), Polled::Pending);
        let waiting = logins.look_up(&local(), code, at(2)).unwrap();
        assert_eq!(waiting.enrolment, enrolment(1));
        logins.approve(&local(), code, at(2)).unwrap();
        assert_eq!(
            logins.approve(&local(), code, at(2)),
            Err(CodeError::Unknown)
        );

        let polled = logins.poll(&started.device_code, at(7));
        assert_eq!(polled, Polled::Approved(local(), Box::new(enrolment(1))));
        assert_eq!(logins.poll(&started.device_code, at(20)), Polled::Expired);
    }

    #[test]
    fn a_refused_login_is_told_once() {
        let mut logins = logins();
        let started = start(&mut logins, 1, at(0)).unwrap();

        logins
            .deny(&local(), Some(&started.user_code), at(1))
            .unwrap();

        assert_eq!(logins.poll(&started.device_code, at(2)), Polled::Denied);
        assert_eq!(logins.poll(&started.device_code, at(9)), Polled::Expired);
    }

    #[test]
    fn a_code_runs_out_after_ten_minutes() {
        let mut logins = logins();
        let started = start(&mut logins, 1, at(0)).unwrap();
        let code = Some(&started.user_code);

        assert!(logins.look_up(&local(), code, at(599)).is_ok());
        assert_eq!(
            logins.look_up(&local(), code, at(600)),
            Err(CodeError::Unknown)
        );
        assert_eq!(logins.poll(&started.device_code, at(600)), Polled::Expired);
    }

    #[test]
    fn five_wrong_codes_stop_an_account_for_ten_minutes_and_no_other() {
        let mut logins = logins();
        let started = start(&mut logins, 1, at(0)).unwrap();
        let right = Some(&started.user_code);
        let wrong = UserCode::parse("ZZZZ-ZZZZ");

        for _ in 0..MAX_TRIES {
            let refused = logins.look_up(&local(), wrong.as_ref(), at(1));
            assert_eq!(refused, Err(CodeError::Unknown));
        }

        let refused = logins.look_up(&local(), right, at(2));
        assert_eq!(refused, Err(CodeError::TooManyTries));
        assert!(
            logins
                .look_up(&AccountId::new("other"), right, at(2))
                .is_ok()
        );
        let again = start(&mut logins, 1, at(500)).unwrap();
        let code = Some(&again.user_code);
        assert!(logins.look_up(&local(), code, at(601)).is_ok());
    }

    #[test]
    fn a_device_that_polls_too_often_is_slowed_down() {
        let mut logins = logins();
        let started = start(&mut logins, 1, at(0)).unwrap();

        assert_eq!(logins.poll(&started.device_code, at(0)), Polled::Pending);
        assert_eq!(logins.poll(&started.device_code, at(4)), Polled::SlowDown);
        assert_eq!(logins.poll(&started.device_code, at(5)), Polled::Pending);
    }

    #[test]
    fn logins_are_capped_for_each_address_and_in_all() {
        let mut logins = logins();
        let address = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        let mut start = |n, now| start_from(&mut logins, 1, address(n), now);

        for _ in 0..MAX_PENDING_PER_ADDRESS {
            start(0, at(0)).unwrap();
        }
        assert_eq!(start(0, at(0)), Err(StartError::AddressFull));
        for n in MAX_PENDING_PER_ADDRESS..MAX_PENDING {
            start(n, at(0)).unwrap();
        }
        assert_eq!(start(MAX_PENDING, at(0)), Err(StartError::Full));
        assert!(start(MAX_PENDING, at(600)).is_ok());
    }

    #[test]
    fn codes_are_read_in_any_spelling_and_shown_in_one() {
        let code = UserCode::parse("BCDF-GHJK").unwrap();
        assert_eq!(code.shown(), "BCDF-GHJK");
        for spelling in ["bcdfghjk", " bcdf ghjk ", "BcDf-gHjK"] {
            assert_eq!(UserCode::parse(spelling), Some(code.clone()));
        }
        for wrong in [
            "",
            "BCDF-GHJ",
            "BCDF-GHJKL",
            "ACDF-GHJK",
            "BCDF-GHJ1",
            "BCDF_GHJK",
        ] {
            assert_eq!(UserCode::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn drawn_codes_use_every_letter_and_skip_biased_bytes() {
        let mut random = [255; CODE_RANDOM];
        assert_eq!(UserCode::draw(random), None);
        for (n, byte) in random.iter_mut().skip(4).take(8).enumerate() {
            *byte = (n * 20 + n) as u8;
        }
        assert_eq!(UserCode::draw(random).unwrap().shown(), "BCDF-GHJK");
    }

    #[test]
    fn a_device_name_cannot_disturb_what_shows_it() {
        assert_eq!(clean_name("Ann's laptop (2)"), "Ann's laptop (2)");
        assert_eq!(clean_name("<b>\u{1b}[2J\u{202e}x\n"), "b2Jx");
        assert_eq!(clean_name(" \n "), "unnamed");
        assert_eq!(clean_name(&"ü".repeat(99)).chars().count(), 64);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let block = |text: &str| block(text.parse().unwrap());
        assert_eq!(block("2001:db8:1:2::1"), block("2001:db8:1:2:ffff::9"));
        assert_ne!(block("2001:db8:1:2::1"), block("2001:db8:1:3::1"));
        assert_eq!(block("::ffff:10.0.0.1"), block("10.0.0.1"));
    }

    fn logins() -> Logins {
        Logins::new(Duration::from_secs(5))
    }

    fn start(logins: &mut Logins, n: u8, now: SystemTime) -> Result<Started, StartError> {
        start_from(logins, n, IpAddr::from([127, 0, 0, 1]), now)
    }

    fn start_from(
        logins: &mut Logins,
        n: u8,
        address: IpAddr,
        now: SystemTime,
    ) -> Result<Started, StartError> {
        let random = crate::secrets::random;
        logins.start(enrolment(n), address, now, random(), random)
    }

    fn enrolment(n: u8) -> Enrolment {
        Enrolment {
            device: DeviceKey::from_bytes([n; 32]),
            client: ClientKey::from_bytes([n; 32]),
            client_signature: Signature::from_bytes([n; 64]),
            device_name: "a device".into(),
        }
    }

    fn local() -> AccountId {
        AccountId::local()
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
    }
}
