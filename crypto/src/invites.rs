//! Invites: a secret that lets one client in, once, within ten minutes.
//!
//! The wing makes them and keeps them in memory; a restart ends them. A client proves
//! that it has one without saying it: the proof is bound to its key and to the session,
//! so it is of no use to anybody who sees it.

use core::fmt;
use core::str::FromStr;

use data_encoding::BASE32_NOPAD;
use ring::hmac;
use wt_protocol::access::Role;
use wt_protocol::keys::ClientKey;
use wt_protocol::signed;
use zeroize::Zeroizing;

/// How long an invite holds, in milliseconds.
pub const INVITE_LIFETIME_MS: u64 = 10 * 60 * 1_000;

/// Invites that may be open at once. More than a person hands out in ten minutes, and
/// few enough to try them all for each client that comes.
const MAX_OPEN: usize = 32;

/// The 128-bit secret of an invite: what stands behind `#k=` in a link.
#[derive(Clone, PartialEq, Eq)]
pub struct InviteSecret(Zeroizing<[u8; 16]>);

impl InviteSecret {
    /// Wraps 16 random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The text for a link: 26 characters of lower-case base32.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = BASE32_NOPAD.encode(&*self.0);
        text.make_ascii_lowercase();
        Zeroizing::new(text)
    }

    /// What a client sends first to use this invite.
    pub fn prove(&self, handshake_hash: &[u8; 32], client: &ClientKey) -> [u8; 32] {
        hmac::sign(&self.key(), &signed::invite(handshake_hash, client))
            .as_ref()
            .try_into()
            .expect("HMAC-SHA256 has 32 bytes")
    }

    /// In constant time.
    fn is_proved(&self, handshake_hash: &[u8; 32], client: &ClientKey, proof: &[u8; 32]) -> bool {
        let message = signed::invite(handshake_hash, client);
        hmac::verify(&self.key(), &message, proof).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &*self.0)
    }
}

impl fmt::Debug for InviteSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteSecret(..)")
    }
}

/// A text is not the secret of an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret of an invite is 26 characters of a-z and 2-7")]
pub struct NotASecret;

impl FromStr for InviteSecret {
    type Err = NotASecret;
    fn from_str(text: &str) -> Result<Self, NotASecret> {
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(NotASecret);
        }
        BASE32_NOPAD
            .decode(text.to_ascii_uppercase().as_bytes())
            .ok()
            .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
            .map(Self::from_bytes)
            .ok_or(NotASecret)
    }
}

/// What an invite lets its user do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteTerms {
    /// What it may do.
    pub role: Role,
    /// Folders that it may start sessions in; empty for all.
    pub paths: Vec<String>,
}

struct Invite {
    secret: InviteSecret,
    terms: InviteTerms,
    ends_at_ms: u64,
}

/// The open invites of a wing.
#[derive(Default)]
pub struct Invites {
    open: Vec<Invite>,
}

/// As many invites are open as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_OPEN} invites are open, which is the most; each ends ten minutes after it was made")]
pub struct TooManyInvites;

/// A proof is of no open invite: it was used, it ended, or there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the invite was used, has ended or was never made; ask for another one")]
pub struct NoSuchInvite;

impl Invites {
    /// Opens an invite. Returns when it ends, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`TooManyInvites`].
    pub fn issue(
        &mut self,
        secret: InviteSecret,
        terms: InviteTerms,
        now_ms: u64,
    ) -> Result<u64, TooManyInvites> {
        self.expire(now_ms);
        if self.open.len() >= MAX_OPEN {
            return Err(TooManyInvites);
        }
        let ends_at_ms = now_ms.saturating_add(INVITE_LIFETIME_MS);
        self.open.push(Invite {
            secret,
            terms,
            ends_at_ms,
        });
        Ok(ends_at_ms)
    }

    /// Uses up the invite that this client proved in this session.
    ///
    /// # Errors
    /// [`NoSuchInvite`], for whatever reason; the client is told none.
    pub fn redeem(
        &mut self,
        handshake_hash: &[u8; 32],
        client: &ClientKey,
        proof: &[u8; 32],
        now_ms: u64,
    ) -> Result<InviteTerms, NoSuchInvite> {
        self.expire(now_ms);
        // All are tried, so that the time does not tell which one it was.
        let mut found = None;
        for (at, invite) in self.open.iter().enumerate() {
            if invite.secret.is_proved(handshake_hash, client, proof) {
                found = Some(at);
            }
        }
        let at = found.ok_or(NoSuchInvite)?;
        Ok(self.open.swap_remove(at).terms)
    }

    /// How many are open.
    pub fn open(&mut self, now_ms: u64) -> usize {
        self.expire(now_ms);
        self.open.len()
    }

    /// Ends all of them: when the wing is locked.
    pub fn end_all(&mut self) {
        self.open.clear();
    }

    fn expire(&mut self, now_ms: u64) {
        // One that seems to come from the future was made before the clock was set back.
        self.open.retain(|invite| {
            now_ms < invite.ends_at_ms
                && invite.ends_at_ms <= now_ms.saturating_add(INVITE_LIFETIME_MS)
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::keys::ClientSecret;

    const HASH: [u8; 32] = [7; 32];

    #[test]
    fn an_invite_lets_one_client_in_once() {
        let (mut invites, secret) = (Invites::default(), secret(1));
        invites.issue(secret.clone(), terms(), 0).unwrap();
        let proof = secret.prove(&HASH, &client(1));

        assert_eq!(invites.redeem(&HASH, &client(1), &proof, 1), Ok(terms()));
        assert_eq!(
            invites.redeem(&HASH, &client(1), &proof, 2),
            Err(NoSuchInvite)
        );
    }

    #[test]
    fn a_proof_counts_for_its_own_client_and_session_alone() {
        let (mut invites, secret) = (Invites::default(), secret(1));
        invites.issue(secret.clone(), terms(), 0).unwrap();
        let proof = secret.prove(&HASH, &client(1));
        let other = InviteSecret::from_bytes([2; 16]);
        let mut redeem = |hash, key, proof: &[u8; 32]| invites.redeem(hash, &client(key), proof, 1);

        assert_eq!(redeem(&HASH, 2, &proof), Err(NoSuchInvite));
        assert_eq!(redeem(&[8; 32], 1, &proof), Err(NoSuchInvite));
        assert_eq!(
            redeem(&HASH, 1, &other.prove(&HASH, &client(1))),
            Err(NoSuchInvite)
        );
        assert_eq!(redeem(&HASH, 1, &proof), Ok(terms()));
    }

    #[test]
    fn an_invite_ends_after_ten_minutes_and_when_the_clock_is_set_back() {
        for (now, redeemed) in [
            (1_000 + INVITE_LIFETIME_MS - 1, Ok(terms())),
            (1_000 + INVITE_LIFETIME_MS, Err(NoSuchInvite)),
            (1_000, Ok(terms())),
            (999, Err(NoSuchInvite)),
        ] {
            let (mut invites, secret) = (Invites::default(), secret(1));
            invites.issue(secret.clone(), terms(), 1_000).unwrap();
            let proof = secret.prove(&HASH, &client(1));

            assert_eq!(invites.redeem(&HASH, &client(1), &proof, now), redeemed);
        }
    }

    #[test]
    fn invites_are_capped_until_some_end() {
        let mut invites = Invites::default();
        for number in 0..MAX_OPEN {
            invites.issue(secret(number as u8), terms(), 0).unwrap();
        }

        assert_eq!(invites.issue(secret(99), terms(), 1), Err(TooManyInvites));
        assert_eq!(invites.open(1), MAX_OPEN);
        assert!(
            invites
                .issue(secret(99), terms(), INVITE_LIFETIME_MS)
                .is_ok()
        );
        invites.end_all();
        assert_eq!(invites.open(INVITE_LIFETIME_MS), 0);
    }

    #[test]
    fn a_secret_survives_its_text_and_shows_in_no_log() {
        let secret = secret(200);
        let text = secret.expose();

        assert_eq!(text.len(), 26);
        assert_eq!(text.parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "InviteSecret(..)");
        for bad in [
            "",
            &text[1..],
            &text.to_ascii_uppercase(),
            &format!("{}b", &text[..25]),
        ] {
            assert_eq!(bad.parse::<InviteSecret>(), Err(NotASecret));
        }
    }

    fn secret(number: u8) -> InviteSecret {
        InviteSecret::from_bytes([number; 16])
    }

    fn client(number: u8) -> ClientKey {
        ClientSecret::from_bytes(&[number; 32]).public()
    }

    fn terms() -> InviteTerms {
        InviteTerms {
            role: Role::Operator,
            paths: vec!["/srv".to_owned()],
        }
    }
}
