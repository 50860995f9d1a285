//! `wing.yaml`: what a wing's owner may set.

use std::path::PathBuf;
use std::{env, fmt};

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use wt_crypto::AdmissionMode;
use wt_egg::log::{DEFAULT_OUTPUT_WINDOW, MAX_OUTPUT_WINDOW, MIN_OUTPUT_WINDOW};
use wt_egg::recording::{DEFAULT_RECORDING_CAP, MIN_RECORDING_CAP};
use wt_protocol::WingLabel;

use crate::error::{Error, ErrorCode};
use crate::profile::{Profile, hostname};
use crate::sessions::StartTerms;

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
    /// Caps.
    #[serde(default)]
    pub limits: Limits,
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
    /// Largest recording of a session that is recorded, in bytes or as `1 GiB`. Default
    /// 256 MiB; a recording that reaches it stops with a note, and the session goes on.
    #[serde(default)]
    pub recording: Option<ByteSize>,
}

/// An amount of bytes: a number, or one with KiB, MiB or GiB behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

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
        ] {
            let error = WingConfig::parse(bad).unwrap_err();
            assert!(error.contains(named), "{bad}: {error}");
        }
    }
}
