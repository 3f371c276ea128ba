//! Durations as `20ms`, `1.5s` or `1m30s`, as every Kubernetes flag writes them.

use std::time::Duration;

use jiff::SignedDuration;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration; write it as 20ms, 1.5s or 1m30s")]
pub struct BadDuration {
    text: String,
}

/// Reads a duration; `0` is the only number that needs no unit, and none is negative.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let signed = match text {
        "0" => Some(SignedDuration::ZERO),
        _ => text.parse().ok(),
    };
    let unsigned = signed.and_then(|signed| signed.try_into().ok());
    unsigned.ok_or_else(|| BadDuration {
        text: text.to_owned(),
    })
}

/// Writes a duration so that [`parse`] reads it.
pub fn format(duration: Duration) -> String {
    let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    format!("{signed:#}")
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
    fn a_duration_is_read_as_it_is_written_and_none_is_negative() {
        for (text, millis) in [
            ("0", 0),
            ("20ms", 20),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("1h0m0.25s", 3_600_250),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(text), Ok(duration), "{text}");
            assert_eq!(parse(&format(duration)), Ok(duration), "{text}");
        }
        for text in ["", "20", "ms", "-1s", "1..5s", "."] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
