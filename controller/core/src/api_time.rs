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
pub fn parse(text: &str) -> Option<Timestamp> {
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
mod tests;
