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
    /// Whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as i64 * SECOND)
    }

    /// Absent if it is negative.
    pub fn as_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
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
