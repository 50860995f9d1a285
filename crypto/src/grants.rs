//! Grants: a roost's word that a client belongs to an account. The wing checks every part
//! of it, and remembers the account's epoch, so that a relay cannot go back in time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wt_protocol::access::{Role, SignedGrant};
use wt_protocol::keys::{ClientKey, DeviceKey, GrantKey};
use wt_protocol::{RoostId, WingId, signed};

use crate::keys::verify;

/// Longest life of a grant, in seconds.
pub const GRANT_LIFETIME: u64 = 10 * 60;

/// How far a roost's clock may be ahead of the wing's, in seconds. A clock that is set by
/// hand is seldom further off, and grants are short, so this is a tenth of their life.
const CLOCK_AHEAD: u64 = 60;

/// Longest name of an account or organisation, in bytes: an e-mail address has at most 254.
const MAX_ACCOUNT: usize = 255;

/// Whom a grant must be for.
#[derive(Debug, Clone, Copy)]
pub struct GrantTerms<'a> {
    /// The roost that the wing signed in to.
    pub roost: &'a RoostId,
    /// Its grant key, as it was pinned at login.
    pub key: &'a GrantKey,
    /// The account that the wing belongs to.
    pub owner: &'a str,
    /// The wing.
    pub wing: &'a WingId,
    /// The client at the other end of the session.
    pub client: &'a ClientKey,
}

/// Why a grant does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A name in it is empty or too long.
    #[error("the grant is malformed")]
    Malformed,
    /// It is not signed by the roost.
    #[error("the grant is not signed by this roost")]
    Signature,
    /// It is for another roost, wing or client.
    #[error("the grant is for somebody else")]
    SomebodyElse,
    /// It is for an account that the wing does not belong to.
    #[error("the grant is of an account that does not own this wing")]
    OtherAccount,
    /// It is given in an organisation, and the wing is not shared with it.
    #[error("the wing is not shared with the organisation of the grant")]
    NotShared,
    /// It ended, has not begun, or would hold for too long.
    #[error(
        "the grant does not hold at this time; the clocks of the roost and this machine may differ"
    )]
    Time,
    /// A higher epoch of the account was seen.
    #[error("the relay went back in time: it showed epoch {offered} of the account after {seen}")]
    WentBack {
        /// The highest epoch seen.
        seen: u64,
        /// The epoch of the grant.
        offered: u64,
    },
}

/// A grant of which everything was checked. Only [`Epochs::check`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedGrant {
    account: String,
    device: DeviceKey,
    client: ClientKey,
    role: Role,
    expires_at_ms: u64,
}

impl CheckedGrant {
    /// The account of the client's owner.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The client's device.
    pub fn device(&self) -> DeviceKey {
        self.device
    }

    pub(crate) fn device_ref(&self) -> &DeviceKey {
        &self.device
    }

    /// The client.
    pub fn client(&self) -> ClientKey {
        self.client
    }

    /// The most that it may be used for: never more than an operator.
    pub fn role(&self) -> Role {
        self.role
    }

    /// When it ends, in milliseconds since the Unix epoch.
    pub fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms
    }
}

/// The highest epoch seen of each account that counts at this wing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epochs(BTreeMap<String, u64>);

impl Epochs {
    /// Checks a grant and takes note of its epoch.
    ///
    /// The shell stores the epochs when they changed, before it acts on the grant.
    ///
    /// # Errors
    /// See [`GrantError`]; nothing is noted then.
    pub fn check(
        &mut self,
        signed: &SignedGrant,
        terms: &GrantTerms<'_>,
        now_ms: u64,
    ) -> Result<CheckedGrant, GrantError> {
        let grant = &signed.grant;
        let is_name = |name: &str| (1..=MAX_ACCOUNT).contains(&name.len());
        if !is_name(&grant.account) || !grant.org.as_deref().is_none_or(is_name) {
            return Err(GrantError::Malformed);
        }
        verify(
            terms.key.as_bytes(),
            &signed::grant(grant),
            &signed.signature,
        )
        .map_err(|_| GrantError::Signature)?;
        if grant.roost != *terms.roost || grant.wing != *terms.wing || grant.client != *terms.client
        {
            return Err(GrantError::SomebodyElse);
        }
        // No wing is shared with an organisation in this version.
        if grant.org.is_some() {
            return Err(GrantError::NotShared);
        }
        if grant.account != terms.owner {
            return Err(GrantError::OtherAccount);
        }
        let now = now_ms / 1_000;
        let life = grant.expires_at.checked_sub(grant.issued_at);
        let is_short = life.is_some_and(|life| (1..=GRANT_LIFETIME).contains(&life));
        let has_begun = grant.issued_at <= now.saturating_add(CLOCK_AHEAD);
        if !is_short || !has_begun || now >= grant.expires_at {
            return Err(GrantError::Time);
        }
        let seen = self.0.get(&grant.account).copied().unwrap_or(0);
        if grant.epoch < seen {
            let offered = grant.epoch;
            return Err(GrantError::WentBack { seen, offered });
        }
        if grant.epoch > seen {
            self.0.insert(grant.account.clone(), grant.epoch);
        }
        Ok(CheckedGrant {
            account: grant.account.clone(),
            device: grant.device,
            client: grant.client,
            role: grant.role.min(Role::Operator),
            expires_at_ms: grant.expires_at.saturating_mul(1_000),
        })
    }

    /// The highest epoch seen of an account.
    pub fn of(&self, account: &str) -> u64 {
        self.0.get(account).copied().unwrap_or(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use wt_protocol::access::Grant;
    use wt_protocol::keys::Signature;

    use super::*;
    use crate::keys::{ClientSecret, DeviceSecret, IdentitySecret};

    const NOW: u64 = 1_800_000_000;

    /// Any Ed25519 key does for a roost's in tests.
    fn roost_key(number: u8) -> IdentitySecret {
        IdentitySecret::from_bytes(&[number; 32])
    }

    fn sign(grant: Grant) -> SignedGrant {
        let signature = roost_key(1).sign(&signed::grant(&grant));
        SignedGrant { grant, signature }
    }

    fn grant() -> Grant {
        Grant {
            roost: roost_id(),
            account: "ada".to_owned(),
            device: DeviceSecret::from_bytes(&[2; 32]).public(),
            client: client(3),
            wing: wing_id(4),
            org: None,
            role: Role::Owner,
            epoch: 5,
            issued_at: NOW,
            expires_at: NOW + GRANT_LIFETIME,
        }
    }

    fn check(
        epochs: &mut Epochs,
        signed: &SignedGrant,
        now: u64,
    ) -> Result<CheckedGrant, GrantError> {
        let terms = GrantTerms {
            roost: &roost_id(),
            key: &grant_key(),
            owner: "ada",
            wing: &wing_id(4),
            client: &client(3),
        };
        epochs.check(signed, &terms, now * 1_000)
    }

    /// One that counts for this client until far in the future, for tests of admission.
    pub(crate) fn checked(client: ClientKey, device: DeviceKey, role: Role) -> CheckedGrant {
        CheckedGrant {
            account: "ada".to_owned(),
            device,
            client,
            role: role.min(Role::Operator),
            expires_at_ms: 1_000_000,
        }
    }

    #[test]
    fn a_grant_counts_for_its_client_and_never_makes_an_owner() {
        let mut epochs = Epochs::default();

        let checked = check(&mut epochs, &sign(grant()), NOW).unwrap();

        assert_eq!(checked.account(), "ada");
        assert_eq!(checked.client(), client(3));
        assert_eq!(checked.role(), Role::Operator);
        assert_eq!(checked.expires_at_ms(), (NOW + GRANT_LIFETIME) * 1_000);
        assert_eq!(epochs.of("ada"), 5);
        let observer = Grant {
            role: Role::Observer,
            ..grant()
        };
        let checked = check(&mut epochs, &sign(observer), NOW).unwrap();
        assert_eq!(checked.role(), Role::Observer);
    }

    #[test]
    fn each_field_of_a_grant_is_signed() {
        let good = sign(grant());
        let changed = |change: &dyn Fn(&mut Grant)| {
            let mut signed = good.clone();
            change(&mut signed.grant);
            check(&mut Epochs::default(), &signed, NOW)
        };
        let wrong = Err(GrantError::Signature);

        assert!(changed(&|_| {}).is_ok());
        assert_eq!(changed(&|g| g.roost = RoostId::from_bytes([0; 32])), wrong);
        assert_eq!(changed(&|g| g.account = "eve".to_owned()), wrong);
        assert_eq!(
            changed(&|g| g.device = DeviceKey::from_bytes([0; 32])),
            wrong
        );
        assert_eq!(changed(&|g| g.client = client(9)), wrong);
        assert_eq!(changed(&|g| g.wing = wing_id(9)), wrong);
        assert_eq!(changed(&|g| g.org = Some("org".to_owned())), wrong);
        assert_eq!(changed(&|g| g.role = Role::Observer), wrong);
        assert_eq!(changed(&|g| g.epoch += 1), wrong);
        assert_eq!(changed(&|g| g.issued_at -= 1), wrong);
        assert_eq!(changed(&|g| g.expires_at -= 1), wrong);
        let unsigned = SignedGrant {
            signature: Signature::from_bytes([0; 64]),
            ..good.clone()
        };
        assert_eq!(check(&mut Epochs::default(), &unsigned, NOW), wrong);
    }

    #[test]
    fn a_grant_for_somebody_else_does_not_count_though_it_is_signed() {
        let signed = |change: &dyn Fn(&mut Grant)| {
            let mut grant = grant();
            change(&mut grant);
            check(&mut Epochs::default(), &sign(grant), NOW)
        };
        let somebody_else = Err(GrantError::SomebodyElse);

        assert!(signed(&|_| {}).is_ok());
        assert_eq!(
            signed(&|g| g.roost = RoostId::from_bytes([0; 32])),
            somebody_else
        );
        assert_eq!(signed(&|g| g.wing = wing_id(9)), somebody_else);
        assert_eq!(signed(&|g| g.client = client(9)), somebody_else);
        assert_eq!(
            signed(&|g| g.account = "eve".to_owned()),
            Err(GrantError::OtherAccount)
        );
        assert_eq!(
            signed(&|g| g.org = Some("org".to_owned())),
            Err(GrantError::NotShared)
        );
        for name in [String::new(), "x".repeat(MAX_ACCOUNT + 1)] {
            assert_eq!(
                signed(&|g| g.account = name.clone()),
                Err(GrantError::Malformed)
            );
            assert_eq!(
                signed(&|g| g.org = Some(name.clone())),
                Err(GrantError::Malformed)
            );
        }
    }

    #[test]
    fn a_grant_holds_for_ten_minutes_at_most() {
        let at = |issued_at, expires_at, now| {
            let grant = Grant {
                issued_at,
                expires_at,
                ..grant()
            };
            check(&mut Epochs::default(), &sign(grant), now).map(|_| ())
        };

        assert_eq!(at(NOW, NOW + 600, NOW), Ok(()));
        assert_eq!(at(NOW, NOW + 600, NOW + 599), Ok(()));
        assert_eq!(at(NOW, NOW + 600, NOW + 600), Err(GrantError::Time));
        assert_eq!(at(NOW, NOW + 601, NOW), Err(GrantError::Time));
        assert_eq!(at(NOW + 60, NOW + 600, NOW), Ok(()));
        assert_eq!(at(NOW + 61, NOW + 600, NOW), Err(GrantError::Time));
        assert_eq!(at(NOW, NOW, NOW), Err(GrantError::Time));
        assert_eq!(at(NOW + 5, NOW, NOW), Err(GrantError::Time));
    }

    #[test]
    fn a_relay_that_goes_back_in_time_is_refused() {
        let mut epochs = Epochs::default();
        let mut of_epoch = |epoch| check(&mut epochs, &sign(Grant { epoch, ..grant() }), NOW).err();

        assert_eq!(of_epoch(5), None);
        assert_eq!(of_epoch(5), None);
        assert_eq!(of_epoch(7), None);
        let (seen, offered) = (7, 6);
        assert_eq!(of_epoch(6), Some(GrantError::WentBack { seen, offered }));
    }

    fn grant_key() -> GrantKey {
        GrantKey::from_bytes(*roost_key(1).public().as_bytes())
    }

    fn roost_id() -> RoostId {
        RoostId::of("https://roost.example", &grant_key())
    }

    fn client(number: u8) -> ClientKey {
        ClientSecret::from_bytes(&[number; 32]).public()
    }

    fn wing_id(number: u8) -> WingId {
        WingId::of_identity(&roost_key(number).public())
    }
}
