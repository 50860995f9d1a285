//! `wt://ROOST/WING_ID[?label=LABEL][#k=SECRET]`: what a user carries from a wing to a new
//! machine, so that nothing needs to be trusted on the way but that.
//!
//! ROOST is `HOST` or `HOST:PORT`. It means https, or http when the host is this machine
//! itself: the only origins that a client takes. With a secret the link is an invite.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use wt_protocol::{WingId, WingLabel};

use crate::invites::InviteSecret;

/// What a link starts with.
const SCHEME: &str = "wt://";

/// Longest link that is read, in bytes: a host name of 253, and the rest is under 160.
const MAX_LINK: usize = 512;

/// Longest host name (RFC 1035 section 2.3.4, as text).
const MAX_HOST: usize = 253;

/// A way to a wing. With a secret it also lets its first user in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WingLink {
    roost: RoostHost,
    wing_id: WingId,
    label: Option<WingLabel>,
    invite: Option<InviteSecret>,
}

/// The host and port of a roost, as they stand in a link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RoostHost(String);

/// Why a text is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It starts otherwise.
    #[error("a link to a wing starts with wt://")]
    Scheme,
    /// It is longer than any link.
    #[error("a link to a wing has at most {MAX_LINK} characters")]
    TooLong,
    /// Its roost is no host, or no host and port.
    #[error("the link does not name a roost as HOST or HOST:PORT after wt://")]
    Roost,
    /// It names no wing.
    #[error("the link does not name a wing by its full id of 26 characters")]
    Wing,
    /// What follows `?` is not one label.
    #[error("the link has something other than one label=NAME after ?")]
    Query,
    /// What follows `#` is not one secret.
    #[error("the link has something other than one k=SECRET after #; it may be cut short")]
    Fragment,
    /// The origin cannot be written in a link.
    #[error("the roost's origin must be https://HOST, or http:// for this machine itself")]
    Origin,
}

impl WingLink {
    /// Makes a link to a wing at a roost, given by its origin.
    ///
    /// # Errors
    /// [`LinkError::Origin`] for one with a path, a user, or http elsewhere than here.
    pub fn new(origin: &str, wing_id: WingId) -> Result<Self, LinkError> {
        let (secure, host) = match origin.split_once("://") {
            Some(("https", host)) => (true, host),
            Some(("http", host)) => (false, host),
            Some(_) | None => return Err(LinkError::Origin),
        };
        let roost: RoostHost = host.parse().map_err(|_| LinkError::Origin)?;
        if roost.is_loopback() == secure {
            return Err(LinkError::Origin);
        }
        Ok(Self {
            roost,
            wing_id,
            label: None,
            invite: None,
        })
    }

    /// Adds what the wing is called.
    #[must_use]
    pub fn with_label(self, label: WingLabel) -> Self {
        Self {
            label: Some(label),
            ..self
        }
    }

    /// Makes it an invite.
    #[must_use]
    pub fn with_invite(self, secret: InviteSecret) -> Self {
        Self {
            invite: Some(secret),
            ..self
        }
    }

    /// The roost's origin.
    pub fn origin(&self) -> String {
        let scheme = if self.roost.is_loopback() {
            "http"
        } else {
            "https"
        };
        format!("{scheme}://{}", self.roost.0)
    }

    /// The wing.
    pub fn wing_id(&self) -> &WingId {
        &self.wing_id
    }

    /// What whoever made the link calls the wing.
    pub fn label(&self) -> Option<&WingLabel> {
        self.label.as_ref()
    }

    /// The secret, of an invite.
    pub fn invite(&self) -> Option<&InviteSecret> {
        self.invite.as_ref()
    }

    /// The whole link. That of an invite is a secret until it was used.
    pub fn expose(&self) -> String {
        let mut text = format!("{SCHEME}{}/{}", self.roost.0, self.wing_id);
        if let Some(label) = &self.label {
            text.push_str("?label=");
            text.push_str(label.as_str());
        }
        if let Some(secret) = &self.invite {
            text.push_str("#k=");
            text.push_str(&secret.expose());
        }
        text
    }
}

impl FromStr for WingLink {
    type Err = LinkError;
    fn from_str(text: &str) -> Result<Self, LinkError> {
        if text.len() > MAX_LINK {
            return Err(LinkError::TooLong);
        }
        let rest = text.strip_prefix(SCHEME).ok_or(LinkError::Scheme)?;
        let (rest, fragment) = cut(rest, '#');
        let (rest, query) = cut(rest, '?');
        let (roost, wing_id) = rest.split_once('/').ok_or(LinkError::Wing)?;
        let label = query
            .map(|query| {
                let label = query.strip_prefix("label=").ok_or(LinkError::Query)?;
                label.parse().map_err(|_| LinkError::Query)
            })
            .transpose()?;
        let invite = fragment
            .map(|fragment| {
                let secret = fragment.strip_prefix("k=").ok_or(LinkError::Fragment)?;
                secret.parse().map_err(|_| LinkError::Fragment)
            })
            .transpose()?;
        Ok(Self {
            roost: roost.parse()?,
            wing_id: wing_id.parse().map_err(|_| LinkError::Wing)?,
            label,
            invite,
        })
    }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

impl RoostHost {
    fn host(&self) -> &str {
        split_port(&self.0).0
    }

    fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
            || bracketed(host).is_some_and(|ip| ip.is_loopback())
    }
}

impl FromStr for RoostHost {
    type Err = LinkError;
    fn from_str(text: &str) -> Result<Self, LinkError> {
        let (host, port) = split_port(text);
        let is_port = |port: &str| {
            !port.starts_with('0')
                && port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok()
        };
        if !is_host(host) || !port.is_none_or(is_port) {
            return Err(LinkError::Roost);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Cuts off the port; the colons inside brackets are the address's own.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

fn bracketed(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// A name in lower case, as origins have it, or an address.
fn is_host(host: &str) -> bool {
    if host.starts_with('[') {
        return bracketed(host).is_some();
    }
    // What looks like an address must be one: some resolvers read 127.1 as one too.
    let is_numeric = host
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x"));
    if is_numeric {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.len() <= MAX_HOST
        && host.split('.').all(|part| {
            (1..=63).contains(&part.len())
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::keys::IdentityKey;

    use super::*;

    #[test]
    fn a_link_survives_its_text() {
        let plain = link("https://roost.example.org");
        let full = link("http://127.0.0.1:8080")
            .with_label("box".parse().unwrap())
            .with_invite(InviteSecret::from_bytes([3; 16]));
        let id = wing_id();

        assert_eq!(plain.expose(), format!("wt://roost.example.org/{id}"));
        assert_eq!(
            full.expose(),
            format!("wt://127.0.0.1:8080/{id}?label=box#k=ambqgaydambqgaydambqgaydam")
        );
        for link in [plain, full] {
            assert_eq!(link.expose().parse(), Ok(link.clone()));
        }
    }

    #[test]
    fn a_roost_is_http_on_this_machine_and_https_elsewhere() {
        for origin in [
            "https://roost.example.org",
            "https://roost.example.org:8443",
            "https://192.0.2.1",
            "https://[2001:db8::1]:8443",
            "http://localhost:8080",
            "http://wt-abc.localhost:8080",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
        ] {
            assert_eq!(link(origin).origin(), origin);
        }
        for origin in [
            "http://roost.example.org",
            "https://localhost:8080",
            "https://roost.example.org/",
            "https://user@roost.example.org",
            "https://Roost.example.org",
            "https://",
            "roost.example.org",
            "ftp://roost.example.org",
        ] {
            let refused = WingLink::new(origin, wing_id());
            assert_eq!(refused, Err(LinkError::Origin), "{origin}");
        }
    }

    #[test]
    fn a_link_that_is_not_exactly_one_is_refused_with_the_part_that_is_wrong() {
        let id = wing_id();
        let good = format!("wt://r.example/{id}");
        let refused = |text: &str| text.parse::<WingLink>().unwrap_err();

        assert!(good.parse::<WingLink>().is_ok());
        assert_eq!(refused(""), LinkError::Scheme);
        assert_eq!(refused(&good.replace("wt:", "https:")), LinkError::Scheme);
        assert_eq!(refused(&good.to_uppercase()), LinkError::Scheme);
        assert_eq!(refused(&"x".repeat(MAX_LINK + 1)), LinkError::TooLong);
        assert_eq!(refused("wt://r.example"), LinkError::Wing);
        assert_eq!(refused(&good[..good.len() - 1]), LinkError::Wing);
        assert_eq!(refused(&format!("{good}/")), LinkError::Wing);
        for roost in [
            "", "a b", "a:", "a:0", "a:08", "a:65536", "u@a", "A", "-a", "a..b", "127.1", "1",
            "[::1", "[x]", "0x7f.1", "ä",
        ] {
            assert_eq!(
                refused(&format!("wt://{roost}/{id}")),
                LinkError::Roost,
                "{roost}"
            );
        }
        for query in [
            "?",
            "?label=",
            "?name=a",
            "?label=a&label=b",
            "?label=-a",
            "?label=a%20b",
        ] {
            assert_eq!(refused(&format!("{good}{query}")), LinkError::Query);
        }
        for fragment in [
            "#",
            "#k=",
            "#k=abc",
            "#x=1",
            "#k=AMBQGAYDAMBQGAYDAMBQGAYDAM",
        ] {
            assert_eq!(refused(&format!("{good}{fragment}")), LinkError::Fragment);
        }
    }

    fn link(origin: &str) -> WingLink {
        WingLink::new(origin, wing_id()).unwrap()
    }

    fn wing_id() -> WingId {
        WingId::of_identity(&IdentityKey::from_bytes([7; 32]))
    }
}
