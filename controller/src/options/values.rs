//! Values as Go's flag library reads and prints them.

use std::{fmt, net::IpAddr, str::FromStr};

pub(in crate::options) mod number;

pub use outrigger_core::go_duration::GoDuration;

/// `true`, `t`, `1` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoBool(pub bool);

impl FromStr for GoBool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("it must be true or false".into()),
        }
    }
}

impl fmt::Display for GoBool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A list: commas split, and `"a,b"` in quotes is one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings(pub Vec<String>);

impl FromStr for Strings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut items = Vec::new();
        let mut rest = text;
        loop {
            let Some(quoted) = rest.strip_prefix('"') else {
                let (item, tail) = rest
                    .split_once(',')
                    .map_or((rest, None), |(item, tail)| (item, Some(tail)));
                items.push(item.to_owned());
                let Some(tail) = tail else { break };
                rest = tail;
                continue;
            };
            let (item, tail) = quoted_item(quoted)?;
            items.push(item);
            match tail.strip_prefix(',') {
                Some(tail) => rest = tail,
                None if tail.is_empty() => break,
                None => return Err("a comma must follow a closing quote".into()),
            }
        }
        Ok(Self(items))
    }
}

/// The item behind an opening quote, where `""` stands for a quote, and what follows it.
fn quoted_item(text: &str) -> Result<(String, &str), String> {
    let mut item = String::new();
    let mut rest = text;
    loop {
        let (head, tail) = rest.split_once('"').ok_or("a quote is not closed")?;
        item.push_str(head);
        let Some(tail) = tail.strip_prefix('"').inspect(|_| item.push('"')) else {
            return Ok((item, tail));
        };
        rest = tail;
    }
}

impl fmt::Display for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(","))
    }
}

/// A list of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Int32s(pub Vec<i32>);

impl FromStr for Int32s {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split(',')
            .map(|item| number::int32(item.trim()).map_err(|reason| format!("{item:?}: {reason}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Int32s {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", items.join(","))
    }
}

/// An address to listen on; an empty text is every address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub IpAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self(IpAddr::from([0, 0, 0, 0]))),
            text => text
                .parse()
                .map(Self)
                .map_err(|_| "it is not an IP address".into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An amount of bytes: `512`, `1K`, `2Ki`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity(pub String);

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SUFFIXES: [&str; 13] = [
            "", "k", "K", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
        ];
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        if number.is_empty() || !SUFFIXES.contains(&suffix) {
            return Err("it is not an amount of bytes such as 512, 1K or 2Ki".into());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
