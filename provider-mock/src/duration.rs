//! Durations in Go's syntax (`20ms`, `1m30s`), as every Kubernetes flag writes them.

use std::fmt::Write as _;
use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration; write it as 20ms, 1.5s or 1m30s")]
pub struct BadDuration {
    text: String,
}

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Reads a duration; `0` is the only number that needs no unit, and none is negative.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration {
        text: text.to_owned(),
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(bad());
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let (_, seconds) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(bad)?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = tail;
    }
    Ok(total)
}

/// Writes a duration so that [`parse`] and Go read it, in the shortest usual form.
pub fn format(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    if duration.as_secs() == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", f64::from(nanos) / 1e3),
            _ => format!("{}ms", f64::from(nanos) / 1e6),
        };
    }
    let (hours, minutes, seconds) = (
        duration.as_secs() / 3600,
        duration.as_secs() / 60 % 60,
        duration.as_secs() % 60,
    );
    let mut text = String::new();
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(text, "{seconds}");
    if nanos > 0 {
        let fraction = format!("{nanos:09}");
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// For `#[serde(with = "...")]`: a duration as text.
pub(crate) mod required {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse(&text).map_err(de::Error::custom)
    }
}

/// For `#[serde(with = "...")]`: an optional duration as text.
pub(crate) mod optional {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => serializer.serialize_some(&super::format(*duration)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| super::parse(&text).map_err(de::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("20ms", 20),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1m30s", 90_000),
            ("1h0m0.25s", 3_600_250),
            ("2000us", 2),
            ("2000µs", 2),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "", "20", "ms", "20 ms", "-1s", "1d", "1..5s", "1s2", "20MS", "1e3s", ".",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in [
            "0s",
            "20ms",
            "1.5s",
            "1m30s",
            "1h0m0.25s",
            "250µs",
            "7ns",
            "1m0s",
        ] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
