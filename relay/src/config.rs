//! How one relay is set up, and what a set-up must fulfil before anything is bound.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// How one relay is set up.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Where to listen: TCP for HTTP(S), and the same number in UDP for links. Port 0
    /// takes a free one.
    pub addr: SocketAddr,
    /// Where keys and the database live. Made with mode 0700 if it is missing.
    pub data_dir: PathBuf,
    /// Certificate and key for HTTPS and links. Without, HTTP is served on loopback only
    /// and links use a certificate of the relay's own making.
    pub tls: Option<TlsFiles>,
    /// The URL under which users reach the relay. Default: `http://ADDR`, or `https://ADDR`
    /// with a certificate.
    pub origin: Option<Origin>,
    /// A proxy in front ends TLS and sets `X-Forwarded-For`. Only with an `origin`.
    pub behind_proxy: bool,
}

/// PEM files of a certificate chain and its key.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The chain, the relay's own certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A set-up that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Passwords and tokens would cross a network in the clear.
    #[error(
        "{0} is not a loopback address, and without a certificate only loopback is served: \
         give --tls-cert and --tls-key, or listen on 127.0.0.1"
    )]
    NeedsCertificate(SocketAddr),
    /// Nobody can type an address such as 0.0.0.0 into a browser.
    #[error("{0} is no address that users can reach: say with --origin which URL they use")]
    NeedsOrigin(SocketAddr),
    /// The relay cannot guess what the proxy is called.
    #[error("behind a proxy --origin must say which URL users reach")]
    ProxyNeedsOrigin,
    /// An origin is a scheme, a host and maybe a port.
    #[error("{0:?} is no origin: give https://HOST or https://HOST:PORT, without a path")]
    Origin(String),
    /// Cookies and tokens for this name would cross a network in the clear.
    #[error("the origin {0} is neither https nor on this machine")]
    PlainOrigin(String),
}

impl RelayConfig {
    /// A relay on this address with everything else by default.
    pub fn new(addr: SocketAddr, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            addr,
            data_dir: data_dir.into(),
            tls: None,
            origin: None,
            behind_proxy: false,
        }
    }

    /// Checks what can be checked before anything is bound.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tls.is_none() && !self.addr.ip().is_loopback() {
            return Err(ConfigError::NeedsCertificate(self.addr));
        }
        match &self.origin {
            Some(origin) if !origin.is_secure() => {
                Err(ConfigError::PlainOrigin(origin.to_string()))
            }
            Some(_) => Ok(()),
            None if self.behind_proxy => Err(ConfigError::ProxyNeedsOrigin),
            None if self.addr.ip().is_unspecified() => Err(ConfigError::NeedsOrigin(self.addr)),
            None => Ok(()),
        }
    }

    /// The origin of this set-up once it is bound to `addr`.
    pub(crate) fn origin_at(&self, addr: SocketAddr) -> Origin {
        self.origin.clone().unwrap_or_else(|| Origin {
            https: self.tls.is_some(),
            host: match addr {
                SocketAddr::V4(v4) => v4.ip().to_string(),
                SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
            },
            port: addr.port(),
        })
    }
}

/// A URL's scheme, host and port in one spelling (RFC 6454 section 6.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    https: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also where the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is https, or on this machine where plain http is as good.
    fn is_secure(&self) -> bool {
        self.https || is_loopback_host(&self.host)
    }

    /// Reads scheme and a `Host` header.
    pub(crate) fn of_host(https: bool, host_and_port: &str) -> Option<Self> {
        let default = if https { 443 } else { 80 };
        let (host, port) = match host_and_port.rsplit_once(':') {
            // A colon inside brackets belongs to the address.
            Some((host, port)) if !port.ends_with(']') => (host, parse_port(port)?),
            _ => (host_and_port, default),
        };
        let host = host.to_ascii_lowercase();
        is_host(&host).then_some(Self { https, host, port })
    }
}

impl FromStr for Origin {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Origin(text.chars().take(200).collect());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong()),
        };
        Self::of_host(https, rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(wrong)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.https, self.port) {
            (true, 443) => write!(f, "https://{}", self.host),
            (false, 80) => write!(f, "http://{}", self.host),
            (true, port) => write!(f, "https://{}:{port}", self.host),
            (false, port) => write!(f, "http://{}:{port}", self.host),
        }
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // u16's own parser also takes a sign.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    host.len() <= 253 && host.split('.').all(label)
}

/// Names that no resolver can point elsewhere: literal loopback addresses, `localhost`,
/// and the per-profile names under it (RFC 6761 section 6.3).
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let profile = host
        .strip_prefix("wt-")
        .and_then(|h| h.strip_suffix(".localhost"))
        .is_some_and(|h| {
            h.len() == 16 && h.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
        });
    profile || matches!(host, "127.0.0.1" | "[::1]" | "localhost")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn without_a_certificate_only_loopback_is_served() {
        let mut config = RelayConfig::new("127.0.0.1:8080".parse().unwrap(), "/nowhere");
        assert_eq!(config.check(), Ok(()));
        for addr in ["0.0.0.0:8080", "192.0.2.1:8080", "[::]:8080"] {
            config.addr = addr.parse().unwrap();
            let error = config.check().unwrap_err();
            assert_eq!(error, ConfigError::NeedsCertificate(config.addr));
            assert!(error.to_string().contains("--tls-cert"));
        }
        config.tls = Some(TlsFiles {
            cert: "cert.pem".into(),
            key: "key.pem".into(),
        });
        assert_eq!(config.check(), Err(ConfigError::NeedsOrigin(config.addr)));
        config.origin = Some("https://roost.example".parse().unwrap());
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn a_proxy_needs_a_secure_origin() {
        let mut config = RelayConfig::new("127.0.0.1:8080".parse().unwrap(), "/nowhere");
        config.behind_proxy = true;
        assert_eq!(config.check(), Err(ConfigError::ProxyNeedsOrigin));
        config.origin = Some("http://roost.example".parse().unwrap());
        assert!(matches!(config.check(), Err(ConfigError::PlainOrigin(_))));
        config.origin = Some("https://roost.example".parse().unwrap());
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn origins_have_one_spelling() {
        for (text, spelled) in [
            ("https://Roost.Example", "https://roost.example"),
            ("HTTPS://roost.example:443/", "https://roost.example"),
            ("http://localhost:80", "http://localhost"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), spelled);
        }
        for text in [
            "",
            "roost.example",
            "ftp://x",
            "https://",
            "https://a/b",
            "https://a:0",
            "https://a:+1",
            "https://a:99999",
            "https://u@a",
            "https://a?b",
            "https://[::1",
            "https://a..b",
            "null",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn look_alikes_of_loopback_are_not_loopback() {
        for host in [
            "127.0.0.1",
            "[::1]",
            "localhost",
            "wt-abcdefghijklmnop.localhost",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "127.evil.test",
            "localhost.evil.test",
            "evil.localhost",
            "wt-abc.localhost",
            "wt-abcdefghijklmnop.localhost.evil.test",
            "127.0.0.2",
            "localhost.",
            "",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }

    #[test]
    fn the_default_origin_is_the_bound_address() {
        let config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), "/nowhere");
        let v6 = "[::1]:81".parse().unwrap();
        assert_eq!(config.origin_at(v6).to_string(), "http://[::1]:81");
        let v4 = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(config.origin_at(v4).to_string(), "http://127.0.0.1:8080");
    }
}
