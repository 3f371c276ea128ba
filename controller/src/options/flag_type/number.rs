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

/// pflag's `float32`.
pub(super) fn float32(text: &str) -> Result<f32, String> {
    let digits = decimal_digits(text)?;
    let value: f32 = match digits.parse() {
        Ok(value) => value,
        Err(_) => hexadecimal(&digits).ok_or(FLOAT)? as f32,
    };
    in_range(&digits, value.is_infinite()).map(|()| value)
}

/// pflag's `float64`.
pub(super) fn float64(text: &str) -> Result<f64, String> {
    let digits = decimal_digits(text)?;
    let value: f64 = match digits.parse() {
        Ok(value) => value,
        Err(_) => hexadecimal(&digits).ok_or(FLOAT)?,
    };
    in_range(&digits, value.is_infinite()).map(|()| value)
}

fn integer(text: &str) -> Result<i128, String> {
    let (negative, number) = unsigned(text);
    if number.contains('_') && !underscores_separate(number) {
        return Err(INTEGER.into());
    }
    let lower = number.to_ascii_lowercase().replace('_', "");
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
    let value = i128::from_str_radix(digits, base).map_err(|error| {
        use std::num::IntErrorKind::PosOverflow;

        match error.kind() {
            PosOverflow => RANGE,
            _ => INTEGER,
        }
    })?;
    Ok(if negative { -value } else { value })
}

/// Whether there is a minus, and what follows the sign.
fn unsigned(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// As Go's `underscoreOK`: each is between two digits, or between the prefix of a base and a digit.
fn underscores_separate(number: &str) -> bool {
    let lower = number.to_ascii_lowercase();
    let prefix = ["0x", "0o", "0b"]
        .iter()
        .any(|prefix| lower.starts_with(prefix));
    let digits = if prefix { &lower[2..] } else { &lower[..] };
    let hexadecimal = lower.starts_with("0x");
    // FlagType of the former letter: a digit (or a prefix, which counts as one), an underscore, another.
    let mut before = if prefix { '0' } else { '!' };
    for letter in digits.chars() {
        let digit = letter.is_ascii_digit() || (hexadecimal && letter.is_ascii_hexdigit());
        let kind = match letter {
            '_' => '_',
            _ if digit => '0',
            _ => '!',
        };
        if (kind == '_' && before != '0') || (before == '_' && kind != '0') {
            return false;
        }
        before = kind;
    }
    before != '_'
}

/// Without underscores, if they may be there.
fn decimal_digits(text: &str) -> Result<String, String> {
    let (_, number) = unsigned(text);
    if number.contains('_') && !underscores_separate(number) {
        return Err(FLOAT.into());
    }
    Ok(text.replace('_', ""))
}

/// `0x1.8p3`: digits to the base of 16, an exponent of two in decimal, which must be there.
fn hexadecimal(text: &str) -> Option<f64> {
    let (negative, number) = unsigned(text);
    let lower = number.to_ascii_lowercase();
    let (mantissa, exponent) = lower.strip_prefix("0x")?.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(&digits, 16).ok()? as f64;
    let exponent = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    let value = value * 2_f64.powi(exponent);
    Some(if negative { -value } else { value })
}

/// Infinity is in range where it is written out.
fn in_range(digits: &str, infinite: bool) -> Result<(), String> {
    let written = digits.to_ascii_lowercase().contains("inf");
    if infinite && !written {
        return Err(RANGE.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
