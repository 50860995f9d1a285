//! `wing.yaml`: what a wing's owner may set.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt};

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use wt_crypto::AdmissionMode;
use wt_egg::LifeLimits;
use wt_egg::log::{DEFAULT_OUTPUT_WINDOW, MAX_OUTPUT_WINDOW, MIN_OUTPUT_WINDOW};
use wt_egg::recording::{DEFAULT_RECORDING_CAP, MIN_RECORDING_CAP};
use wt_protocol::WingLabel;

use crate::error::{Error, ErrorCode};
use crate::login_path::LoginPath;
use crate::profile::{Profile, hostname};
use crate::sessions::StartTerms;

/// Shortest and longest time that a session may be limited to.
const MIN_SPAN: Duration = Duration::from_secs(1);
const MAX_SPAN: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// The settings of a wing. Every key may be left out; unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WingConfig {
    /// What the wing calls itself. Default: the machine's host name.
    #[serde(default)]
    pub label: Option<WingLabel>,
    /// Where sessions of remote clients start. Default: the home folder.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// How clients are admitted. Default: `approve`, the one that this version enforces.
    #[serde(default)]
    pub admission: Option<Admission>,
    /// The key that begins a command to an attached client: `C-a` to `C-z`, `C-\`, or
    /// `none`. Default: `C-b`.
    #[serde(default)]
    pub prefix: Option<PrefixKey>,
    /// What sessions may do to the clipboard of the user's terminal: `off`, `copy`, or
    /// `copy-and-clear`. Default: `copy`.
    #[serde(default)]
    pub clipboard: Option<Clipboard>,
    /// Caps.
    #[serde(default)]
    pub limits: Limits,
}

/// The key that begins a command to an attached client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixKey {
    /// Ctrl and this character: `a` to `z`, or a backslash.
    Ctrl(u8),
    /// There is none; every key goes to the session.
    None,
}

impl Default for PrefixKey {
    /// Ctrl+B.
    fn default() -> Self {
        PrefixKey::Ctrl(b'b')
    }
}

/// That a text names no prefix key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no prefix key; these are C-a to C-z, C-\\ and none")]
pub struct NoPrefixKey(String);

impl FromStr for PrefixKey {
    type Err = NoPrefixKey;

    fn from_str(text: &str) -> Result<Self, NoPrefixKey> {
        match text.as_bytes() {
            b"none" => Ok(PrefixKey::None),
            [b'C', b'-', key @ (b'a'..=b'z' | b'\\')] => Ok(PrefixKey::Ctrl(*key)),
            _ => Err(NoPrefixKey(text.to_owned())),
        }
    }
}

impl fmt::Display for PrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixKey::Ctrl(key) => write!(f, "C-{}", char::from(*key)),
            PrefixKey::None => f.write_str("none"),
        }
    }
}

impl<'de> Deserialize<'de> for PrefixKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|e| de::Error::custom(format!("prefix: {e}")))
    }
}

/// What the programs of a session may do to the clipboard of a terminal that shows it. No
/// policy lets them read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clipboard {
    /// Nothing.
    Off,
    /// Copy text.
    #[default]
    Copy,
    /// Copy text, and clear it.
    CopyAndClear,
}

/// That a text names no policy for the clipboard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no policy for the clipboard; these are off, copy and copy-and-clear")]
pub struct NoClipboard(String);

impl FromStr for Clipboard {
    type Err = NoClipboard;

    fn from_str(text: &str) -> Result<Self, NoClipboard> {
        match text {
            "off" => Ok(Clipboard::Off),
            "copy" => Ok(Clipboard::Copy),
            "copy-and-clear" => Ok(Clipboard::CopyAndClear),
            _ => Err(NoClipboard(text.to_owned())),
        }
    }
}

/// How clients are admitted, as far as this version can enforce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// Only clients on the wing's own list.
    Approve,
}

/// Caps that a wing's owner may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Output that each session keeps, in bytes or as `256 MiB`. Default 64 MiB; costs as
    /// much disk for each session. A client that falls further behind skips output.
    #[serde(default)]
    pub output_window: Option<ByteSize>,
    /// How long a session may be idle, as `12h`: nobody attached, nothing typed or printed,
    /// and under 1 % of a core used. Then it is ended. Default: for ever.
    #[serde(default)]
    pub idle: Option<Span>,
    /// How long a session may live, as `7d`; it is ended when it is idle after that.
    /// Default: for ever.
    #[serde(default)]
    pub lifetime: Option<Span>,
    /// Largest recording of a session that is recorded, in bytes or as `1 GiB`. Default
    /// 256 MiB; a recording that reaches it stops with a note, and the session goes on.
    #[serde(default)]
    pub recording: Option<ByteSize>,
}

/// An amount of bytes: a number, or one with KiB, MiB or GiB behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// A time: a whole number with `s`, `m`, `h` or `d` behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl WingConfig {
    /// Reads a profile's settings; a missing file is the defaults.
    ///
    /// # Errors
    /// A file that does not parse, with the place; or a value out of its bounds.
    pub fn read(profile: &Profile) -> Result<Self, Error> {
        let Some(bytes) = profile.read_state("wing.yaml")? else {
            return Ok(Self::default());
        };
        let path = profile.file("wing.yaml");
        let usage = |reason: &dyn fmt::Display| {
            Error::new(
                ErrorCode::Usage,
                format!("{} cannot be used: {reason}", path.display()),
            )
        };
        let text = String::from_utf8(bytes).map_err(|e| usage(&e))?;
        Self::parse(&text).map_err(|reason| usage(&reason))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        if let Some(ByteSize(size)) = config.limits.output_window
            && !(MIN_OUTPUT_WINDOW..=MAX_OUTPUT_WINDOW).contains(&size)
        {
            return Err(format!(
                "limits.output_window is {size} bytes and must be from {MIN_OUTPUT_WINDOW} to {MAX_OUTPUT_WINDOW}"
            ));
        }
        if let Some(ByteSize(size)) = config.limits.recording
            && size < MIN_RECORDING_CAP
        {
            return Err(format!(
                "limits.recording is {size} bytes and must be {MIN_RECORDING_CAP} at least"
            ));
        }
        for (key, span) in [
            ("idle", config.limits.idle),
            ("lifetime", config.limits.lifetime),
        ] {
            if let Some(Span(span)) = span
                && !(MIN_SPAN..=MAX_SPAN).contains(&span)
            {
                return Err(format!("limits.{key} must be from 1s to 3650d"));
            }
        }
        Ok(config)
    }

    /// What the wing calls itself.
    pub fn label(&self) -> WingLabel {
        self.label
            .clone()
            .unwrap_or_else(|| WingLabel::from_hostname(&hostname()))
    }

    /// How clients are admitted.
    pub fn admission(&self) -> AdmissionMode {
        match self.admission {
            None | Some(Admission::Approve) => AdmissionMode::Approve,
        }
    }

    /// How sessions are made by a command that has these variables, for its own user.
    pub fn terms_of_command(&self, caller: Vec<(String, String)>) -> StartTerms {
        StartTerms {
            env: wt_egg::env::from_terminal(caller.iter().cloned()),
            caller,
            ..self.start_terms(Vec::new())
        }
    }

    /// How sessions are made by a command that a remote shell started with these variables:
    /// such a shell reads fewer start-up files than one that a user logs in to.
    pub fn terms_of_remote_shell(&self, caller: Vec<(String, String)>) -> StartTerms {
        StartTerms {
            login: Some(Arc::default()),
            ..self.terms_of_command(caller)
        }
    }

    /// How sessions are made by a daemon that has these variables, for somebody elsewhere.
    pub fn terms_of_daemon(
        &self,
        caller: Vec<(String, String)>,
        login: &Arc<LoginPath>,
    ) -> StartTerms {
        StartTerms {
            env: wt_egg::env::from_daemon(caller.iter().cloned()),
            caller,
            login: Some(Arc::clone(login)),
            ..self.start_terms(Vec::new())
        }
    }

    /// How sessions are made, with these variables.
    pub fn start_terms(&self, env: Vec<(String, String)>) -> StartTerms {
        let home = env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        StartTerms {
            default_cwd: self
                .cwd
                .clone()
                .or(home)
                .unwrap_or_else(|| PathBuf::from("/")),
            env,
            caller: Vec::new(),
            login: None,
            life: LifeLimits {
                idle: self.limits.idle.map(|span| span.0),
                lifetime: self.limits.lifetime.map(|span| span.0),
            },
            recording_cap: self
                .limits
                .recording
                .map_or(DEFAULT_RECORDING_CAP, |size| size.0),
            output_window: self
                .limits
                .output_window
                .map_or(DEFAULT_OUTPUT_WINDOW, |size| size.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or one with KiB, MiB or GiB behind it")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ByteSize, E> {
                u64::try_from(value)
                    .map(ByteSize)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                parse_size(text)
                    .map(ByteSize)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Size)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_span(&text).map(Span).ok_or_else(|| {
            let expected = "a whole number with s, m, h or d behind it";
            de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
        })
    }
}

fn parse_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].trim().parse().ok()?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_may_be_left_out() {
        let config = WingConfig::parse(
            "label: desk\ncwd: /srv\nadmission: approve\nlimits:\n  output_window: 256 MiB\n",
        )
        .unwrap();

        assert_eq!(config.label().as_str(), "desk");
        assert_eq!(
            config.start_terms(vec![]).default_cwd,
            PathBuf::from("/srv")
        );
        assert_eq!(config.start_terms(vec![]).output_window, 256 << 20);
        assert_eq!(
            WingConfig::parse("# nothing\n").unwrap(),
            WingConfig::default()
        );
        for (text, key) in [
            ("C-a", PrefixKey::Ctrl(b'a')),
            ("C-\\", PrefixKey::Ctrl(b'\\')),
            ("none", PrefixKey::None),
        ] {
            let config = WingConfig::parse(&format!("prefix: {text}")).unwrap();
            assert_eq!(config.prefix, Some(key));
            assert_eq!(key.to_string(), text);
        }
        let clip = WingConfig::parse("clipboard: copy-and-clear").unwrap();
        assert_eq!(clip.clipboard, Some(Clipboard::CopyAndClear));
        assert_eq!("copy-and-clear".parse(), Ok(Clipboard::CopyAndClear));
        let limited = WingConfig::parse("limits: {idle: 90m, lifetime: 7d}").unwrap();
        let life = limited.start_terms(vec![]).life;
        assert_eq!(life.idle, Some(Duration::from_secs(5_400)));
        assert_eq!(life.lifetime, Some(Duration::from_secs(604_800)));
        let number = WingConfig::parse("limits: {output_window: 1048576}").unwrap();
        assert_eq!(number.limits.output_window, Some(ByteSize(1 << 20)));
    }

    #[test]
    fn what_is_unknown_or_cannot_be_enforced_is_refused() {
        for (bad, named) in [
            ("lable: desk", "lable"),
            ("label: -x", "label"),
            ("admission: locked", "locked"),
            ("limits: {output_window: 12}", "12"),
            ("limits: {output_window: 3 bananas}", "bananas"),
            ("limits: {inputs: 1}", "inputs"),
            ("limits: {recording: 1 KiB}", "1024"),
            ("limits: {idle: 0s}", "limits.idle"),
            ("limits: {lifetime: 3 weeks}", "3 weeks"),
            ("limits: {idle: 30}", "30"),
            ("prefix: ctrl-zz", "prefix: \"ctrl-zz\""),
            ("prefix: C-B", "C-B"),
            ("prefix: 3", "prefix"),
            ("clipboard: read", "read"),
        ] {
            let error = WingConfig::parse(bad).unwrap_err();
            assert!(error.contains(named), "{bad}: {error}");
        }
    }
}
