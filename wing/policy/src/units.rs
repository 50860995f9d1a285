//! Lengths of time and sizes of memory as people write them.

use std::time::Duration;

/// The least memory that a limit may allow. Less starts no program, so it is a slip, such as
/// a missing unit.
const MIN_MEMORY: u64 = 1 << 20;

/// The longest time that a limit may allow: a year. More is a slip.
const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Reads a length of time: numbers with units, like `300s`, `1h30m` or `1.5h`.
///
/// Units are `ns`, `us` (or `µs`), `ms`, `s`, `m` and `h`.
///
/// # Errors
/// No such text, or a time of zero or over a year.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no length of time; expected one like 300s, 10m or 1h30m");
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_number(rest).ok_or_else(wrong)?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS_PER_SECOND,
            "m" => 60 * NANOS_PER_SECOND,
            "h" => 3_600 * NANOS_PER_SECOND,
            _ => return Err(wrong()),
        };
        nanos = scaled(number, u128::from(scale))
            .and_then(|part| nanos.checked_add(part))
            .ok_or_else(wrong)?;
        rest = after;
    }
    let nanos = u64::try_from(nanos).map_err(|_| too_long(text))?;
    match Duration::from_nanos(nanos) {
        Duration::ZERO => Err(wrong()),
        length if length > MAX_DURATION => Err(too_long(text)),
        length => Ok(length),
    }
}

fn too_long(text: &str) -> String {
    format!("{text:?} is over a year; expected a length of time like 300s or 10m")
}

/// Reads a size in bytes: a number with a unit, like `2GB`, `512MB` or `1.5GiB`.
///
/// All units are powers of 1024, with or without the `i` or `B`: limits of memory are in
/// pages. A bare number counts bytes.
///
/// # Errors
/// No such text, or a size below a mebibyte or above what 63 bits hold.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; expected one like 2GB, 512MB or 65536KB");
    let (number, unit) = split_number(text).ok_or_else(wrong)?;
    let scale: u128 = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = scaled(number, scale)
        .and_then(|bytes| i64::try_from(bytes).ok())
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(wrong)?;
    if bytes < MIN_MEMORY {
        return Err(format!(
            "{text:?} is {bytes} bytes, and no program starts in that; expected a size like 2GB"
        ));
    }
    Ok(bytes)
}

/// The decimal number at the start, and what follows.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && !number.ends_with('.')
        && number.matches('.').count() <= 1;
    is_number.then_some((number, rest))
}

/// A decimal number times a scale, rounded down. Exact: there is no binary fraction in it.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    /// More digits say nothing at the largest scale.
    const MAX_FRACTION: usize = 12;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.get(..MAX_FRACTION).unwrap_or(fraction);
    let places = u32::try_from(fraction.len()).ok()?;
    let below = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()?.checked_mul(scale)? / 10u128.pow(places),
    };
    whole
        .parse::<u128>()
        .ok()?
        .checked_mul(scale)?
        .checked_add(below)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, millis) in [
            ("300s", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("500ms", 500),
            ("2m0.25s", 120_250),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for text in [
            "",
            "300",
            "s",
            "-1s",
            "1x",
            "1 s",
            "1..5s",
            "1.s",
            ".5s",
            "0s",
            "9000h",
            "1e3s",
            "999999999999999999999999999999999999999999h",
            "99999999999999h",
        ] {
            assert!(duration(text).is_err(), "{text:?} is accepted");
        }
    }

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [
            ("2GB", 2 << 30),
            ("512MB", 512 << 20),
            ("65536KB", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("2g", 2 << 30),
            ("2147483648", 2 << 30),
            ("4 GB", 4 << 30),
        ] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_without_sense_is_refused() {
        for text in [
            "",
            "GB",
            "2",
            "2XB",
            "-2GB",
            "0",
            "99999999999TB",
            "1e9",
            "2GBs",
        ] {
            assert!(memory(text).is_err(), "{text:?} is accepted");
        }
    }
}
