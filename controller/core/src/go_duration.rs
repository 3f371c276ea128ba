//! Durations as Go writes them, in flags, in labels and annotations of users, and at `/configz`.
//!
//! ```
//! use outrigger_core::go_duration;
//! use std::time::Duration;
//!
//! assert_eq!(go_duration::parse("1m30s"), Ok(Duration::from_secs(90)));
//! assert_eq!(go_duration::format(Duration::from_secs(300)), "5m0s");
//! assert!(go_duration::parse("-5s").is_err());
//! ```

use std::time::Duration;

use jiff::SignedDuration;

/// Reads a duration.
///
/// # Errors
/// A text that is none, or is negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let duration: Option<SignedDuration> = match text {
        "0" => Some(SignedDuration::ZERO),
        text => text.parse().ok(),
    };
    let duration =
        duration.ok_or_else(|| format!("{text:?} is no duration; write it as 10s or 1m30s"))?;
    let duration = Duration::try_from(duration);
    duration.map_err(|_negative| "it must not be negative".to_owned())
}

/// Writes a duration.
pub fn format(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    let seconds = Duration::new(duration.as_secs() % 60, duration.subsec_nanos());
    match minutes {
        0 if duration.is_zero() => "0s".to_owned(),
        0 => format!("{duration:?}"),
        1..60 => format!("{minutes}m{}s", seconds.as_secs_f64()),
        _ => format!(
            "{}h{}m{}s",
            minutes / 60,
            minutes % 60,
            seconds.as_secs_f64()
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration(text: &str) -> String {
        match parse(text) {
            Ok(duration) => format(duration),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn durations_are_read_and_printed_as_go_does() {
        for (text, expected) in [
            ("0", "0s"),
            ("10s", "10s"),
            ("90s", "1m30s"),
            ("5m", "5m0s"),
            ("5m0s", "5m0s"),
            ("1h", "1h0m0s"),
            ("12h0m0s", "12h0m0s"),
            ("1.5h", "1h30m0s"),
            ("0.5s", "500ms"),
            ("61.5s", "1m1.5s"),
            ("1500us", "1.5ms"),
            ("1500ns", "1.5µs"),
            ("3µs", "3µs"),
            ("7ns", "7ns"),
            ("+2m", "2m0s"),
            ("-1.5s", "error: it must not be negative"),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
        for text in ["5", "5d", "", "s", "-", "1.2.3s", "9999999999999999h"] {
            assert!(duration(text).contains("is no duration"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_fatal(text: String) {
            let _ = parse(&text);
        }
    }
}
