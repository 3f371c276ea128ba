//! Times in the API's JSON, read as leniently as Go reads them.
//!
//! Go's times reach further than [`Timestamp`]: `9999-12-31T23:59:59Z` is a time that every kubelet may
//! write, and an offset moves it to the year 10000. A time out of range becomes the nearest
//! [`Timestamp`] rather than an error, because one odd time must not cost the whole object.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error};

/// Reads RFC 3339 as Go's API machinery writes it, with years of any length and sign. A time that no
/// [`Timestamp`] can hold becomes [`Timestamp::MIN`] or [`Timestamp::MAX`]. Returns `None` if `text` is no time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let (before_common_era, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text),
    };
    let (year, rest) = unsigned.split_once('-')?;
    let is_year = year.len() >= 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    // The rest is checked with a year that every calendar has; 2000 is a leap year.
    let in_range = format!("2000-{rest}").parse::<Timestamp>().is_ok();
    if !is_year || !in_range {
        return None;
    }
    if before_common_era || year.bytes().all(|byte| byte == b'0') {
        return Some(Timestamp::MIN);
    }
    let is_late = year.len() > 4 || year == "9999";
    is_late.then_some(Timestamp::MAX)
}

/// For `#[serde(deserialize_with)]` beside `#[serde(default)]`, where the time matters: `null` is
/// absent, and text that is no time is an error of the object.
pub(crate) fn or_absent<'de, D>(deserializer: D) -> Result<Option<Timestamp>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<Box<str>>::deserialize(deserializer)?;
    text.filter(|text| !text.is_empty())
        .map(|text| parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no time"))))
        .transpose()
}

/// The same, where no decision needs the time: text that is no time is absent too.
pub(crate) fn if_readable<'de, D>(deserializer: D) -> Result<Option<Timestamp>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<Box<str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| parse(&text)))
}

/// `by` later than `at`, at most the end of time.
pub(crate) fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::parse;

    #[test]
    fn times_that_go_accepts_are_read() {
        let exact = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        for (text, expected) in [
            ("2026-11-21T10:01:02Z", exact("2026-11-21T10:01:02Z")),
            (
                "2026-11-21T10:01:02.000003Z",
                exact("2026-11-21T10:01:02.000003Z"),
            ),
            ("2026-11-21T12:01:02+02:00", exact("2026-11-21T10:01:02Z")),
            ("0001-01-01T00:00:00Z", exact("0001-01-01T00:00:00Z")),
            ("9999-12-30T00:00:00Z", exact("9999-12-30T00:00:00Z")),
            ("9999-12-31T23:59:59Z", Some(Timestamp::MAX)),
            ("9999-12-31T23:59:59.999999Z", Some(Timestamp::MAX)),
            // `9999-12-31T23:59:59-23:59`, as the API server shows it.
            ("10000-01-01T23:58:59Z", Some(Timestamp::MAX)),
            ("123456-01-01T00:00:00Z", Some(Timestamp::MAX)),
            // `0000-01-01T00:00:00+23:59`, as the API server shows it.
            ("-0001-12-31T00:01:00Z", Some(Timestamp::MIN)),
            ("", None),
            ("soon", None),
            ("2026-13-01T00:00:00Z", None),
            ("9999-13-01T00:00:00Z", None),
            ("9999-12-31", None),
            ("99-12-31T00:00:00Z", None),
            ("-", None),
            ("99x9-12-31T00:00:00Z", None),
            ("99x99-12-31T00:00:00Z", None),
            ("000-01-01T00:00:00Z", None),
            // 2026 is no leap year.
            ("2026-02-29T00:00:00Z", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn each_time_of_go_has_a_timestamp(
            year in -1_i32..20_000, month in 1_u8..=12, day in 1_u8..=28,
            hour in 0_u8..24, minute in 0_u8..60, second in 0_u8..60,
        ) {
            // Go pads a negative year to four digits after its sign.
            let sign = if year < 0 { "-" } else { "" };
            let text = format!(
                "{sign}{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z",
                year.unsigned_abs(),
            );
            let read = parse(&text);
            prop_assert!(read.is_some(), "{}", text);
            let clamped = if year < 0 { Timestamp::MIN } else { Timestamp::MAX };
            prop_assert!((0..=9999).contains(&year) || read == Some(clamped), "{}", text);
        }
    }
}
