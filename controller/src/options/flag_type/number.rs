//! Numbers as Go's flag library reads them: `strconv.ParseInt` with base 0 (`0x10`, `0o17`, `010` is 8,
//! `1_000`), and `strconv.ParseFloat`.

const INTEGER: &str = "it is not a whole number such as 16, 1_000 or 0x10";

const FLOAT: &str = "it is not a number such as 20, 0.5 or 1e3";

const RANGE: &str = "value out of range";

/// pflag's `int32`.
pub(super) fn int32(text: &str) -> Result<i32, String> {
    i32::try_from(integer(text)?).map_err(|_| RANGE.into())
}

/// pflag's `int`.
pub(super) fn int(text: &str) -> Result<i64, String> {
    i64::try_from(integer(text)?).map_err(|_| RANGE.into())
}

/// klog's `Level`.
pub(super) fn level(text: &str) -> Result<u32, String> {
    u32::try_from(integer(text)?).map_err(|_| RANGE.into())
}

/// pflag's `float32`.
pub(super) fn float32(text: &str) -> Result<f32, String> {
    let value = float64(text)? as f32;
    in_range(text, value.is_infinite()).map(|()| value)
}

/// pflag's `float64`.
pub(super) fn float64(text: &str) -> Result<f64, String> {
    let digits = without_underscores(text).ok_or(FLOAT)?;
    let value = digits.parse().ok().or_else(|| hexadecimal(&digits));
    // Rust accepts a sign before "nan".
    let value = value.filter(|value| !value.is_nan() || digits.len() == 3);
    let value: f64 = value.ok_or(FLOAT)?;
    in_range(text, value.is_infinite()).map(|()| value)
}

fn integer(text: &str) -> Result<i128, String> {
    let text = without_underscores(text).ok_or(INTEGER)?;
    let (sign, number) = split_sign(&text);
    let lower = number.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    // Rust accepts a sign here.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return Err(INTEGER.into());
    }
    let value = i128::from_str_radix(digits, base).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow => RANGE,
        _ => INTEGER,
    })?;
    Ok(sign * value)
}

/// The sign as a factor, and what follows it.
fn split_sign(text: &str) -> (i128, &str) {
    let negative = text.strip_prefix('-').map(|number| (-1, number));
    negative.unwrap_or((1, text.strip_prefix('+').unwrap_or(text)))
}

/// Absent if an underscore is not between two digits. The prefix of a base counts as a digit, like in Go's
/// `underscoreOK`.
fn without_underscores(text: &str) -> Option<String> {
    let number = split_sign(text).1.to_ascii_lowercase();
    let is_hexadecimal = number.starts_with("0x");
    let is_prefix = ["0x_", "0o_", "0b_"]
        .iter()
        .any(|prefix| number.starts_with(prefix));
    let is_digit = |letter: Option<char>| {
        letter.is_some_and(|c| c.is_ascii_digit() || (is_hexadecimal && c.is_ascii_hexdigit()))
    };
    let parts: Vec<&str> = number.split('_').collect();
    let are_separated = parts.windows(2).enumerate().all(|(index, pair)| {
        let follows_digit = is_digit(pair[0].chars().next_back()) || (index == 0 && is_prefix);
        follows_digit && is_digit(pair[1].chars().next())
    });
    are_separated.then(|| text.replace('_', ""))
}

/// `0x1.8p3`: digits to the base of 16, an exponent of two in decimal, which must be there.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, number) = split_sign(text);
    let lower = number.to_ascii_lowercase();
    let (mantissa, exponent) = lower.strip_prefix("0x")?.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.len() > 16 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(&digits, 16).ok()? as f64;
    let exponent = exponent.saturating_sub(4 * fraction.len() as i32);
    // In two steps: a power may be out of range where the number is not.
    let half = exponent / 2;
    let value = value * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    // Zero times an infinite power.
    Some(sign as f64 * if value.is_nan() { 0.0 } else { value })
}

/// Infinity is in range where it is written out.
fn in_range(text: &str, is_infinite: bool) -> Result<(), String> {
    if is_infinite && !text.to_ascii_lowercase().contains("inf") {
        return Err(RANGE.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
