//! Go's `time.Duration`.

use std::{fmt, str::FromStr, time::Duration};

/// Nanoseconds, read and printed as Go does: `1m30s`, `5m0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(i64);

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000 * MICRO;
const SECOND: i64 = 1_000 * MILLI;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl GoDuration {
    /// Absent if it is negative.
    pub fn as_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    /// The longest that Go knows, if it is longer.
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos().try_into().unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("time: invalid duration {text:?}; write it as 10s or 1m30s");
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let number_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, tail) = rest.split_at(number_end);
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(invalid());
            }
            let unit = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => MICRO,
                "ms" => MILLI,
                "s" => SECOND,
                "m" => MINUTE,
                "h" => HOUR,
                "" => {
                    return Err(format!(
                        "time: missing unit in duration {text:?}; write it as {whole}s or {whole}m"
                    ));
                }
                unit => {
                    return Err(format!(
                        "time: unknown unit {unit:?} in duration {text:?}; the units are \
                         ns, us, ms, s, m and h"
                    ));
                }
            };
            total += digits(whole)
                .and_then(|whole| whole.checked_mul(unit.into()))
                .ok_or_else(invalid)?;
            // More digits than these are less than a nanosecond.
            let fraction = &fraction[..fraction.len().min(18)];
            let scale = 10_i128.pow(fraction.len() as u32);
            total += digits(fraction).ok_or_else(invalid)? * i128::from(unit) / scale;
            rest = tail;
        }
        i64::try_from(if negative { -total } else { total })
            .map(Self)
            .map_err(|_| invalid())
    }
}

fn digits(text: &str) -> Option<i128> {
    match text {
        "" => Some(0),
        _ => text.parse::<u64>().ok().map(i128::from),
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let second = SECOND.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < second {
            let (unit, name) = match nanos {
                1_000_000.. => (MILLI, "ms"),
                1_000.. => (MICRO, "µs"),
                _ => (1, "ns"),
            };
            return write!(f, "{sign}{}{name}", decimal(nanos, unit.unsigned_abs()));
        }
        let seconds = decimal(nanos % MINUTE.unsigned_abs(), second);
        let minutes = nanos / MINUTE.unsigned_abs();
        match minutes {
            0 => write!(f, "{sign}{seconds}s"),
            1..60 => write!(f, "{sign}{minutes}m{seconds}s"),
            _ => write!(f, "{sign}{}h{}m{seconds}s", minutes / 60, minutes % 60),
        }
    }
}

/// `value / unit` in full, without trailing zeros. `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let whole = value / unit;
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", value % unit);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        whole.to_string()
    } else {
        format!("{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration(text: &str) -> String {
        match text.parse::<GoDuration>() {
            Ok(duration) => duration.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn durations_are_read_and_printed_as_go_does() {
        for (text, expected) in [
            ("0", "0s"),
            ("-0", "0s"),
            ("10s", "10s"),
            ("90s", "1m30s"),
            ("5m", "5m0s"),
            ("1m30s", "1m30s"),
            ("1h", "1h0m0s"),
            ("12h", "12h0m0s"),
            ("1.5h", "1h30m0s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1.0001s", "1.0001s"),
            ("1500us", "1.5ms"),
            ("1500ns", "1.5µs"),
            ("3µs", "3µs"),
            ("7ns", "7ns"),
            ("-1.5s", "-1.5s"),
            ("+2m", "2m0s"),
            ("0.1234567890123456789012345s", "123.456789ms"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_without_sense_are_refused_with_advice() {
        for (text, expected) in [
            (
                "5",
                r#"error: time: missing unit in duration "5"; write it as 5s or 5m"#,
            ),
            (
                "1m5",
                r#"error: time: missing unit in duration "1m5"; write it as 5s or 5m"#,
            ),
            (
                "5d",
                r#"error: time: unknown unit "d" in duration "5d"; the units are ns, us, ms, s, m and h"#,
            ),
            (
                "",
                r#"error: time: invalid duration ""; write it as 10s or 1m30s"#,
            ),
            (
                "s",
                r#"error: time: invalid duration "s"; write it as 10s or 1m30s"#,
            ),
            (
                "-",
                r#"error: time: invalid duration "-"; write it as 10s or 1m30s"#,
            ),
            (
                "1.2.3s",
                r#"error: time: invalid duration "1.2.3s"; write it as 10s or 1m30s"#,
            ),
            (
                "9999999999h",
                r#"error: time: invalid duration "9999999999h"; write it as 10s or 1m30s"#,
            ),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_a_round_trip(seconds: u32, nanos in 0_u32..1_000_000_000) {
            let text = format!("{seconds}.{nanos:09}s");
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.as_std(), Some(Duration::new(seconds.into(), nanos)));
            assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_is_fatal(text: String) {
            let _ = text.parse::<GoDuration>();
        }
    }
}
