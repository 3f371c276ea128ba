//! The types of flags: how Go's flag library calls, reads and prints each.

mod number;

use std::{net::IpAddr, str::FromStr};

use outrigger_core::{go_duration::GoDuration, text::without_login};
use outrigger_provider_client::Endpoint;
use outrigger_runtime::telemetry::ModuleVerbosity;
use serde_json::Value;

/// A type of flags.
pub(crate) trait FlagType: Sized {
    /// In Go's flag library.
    const NAME: &str;
    /// A flag may stand without a value, and means `true` then.
    const STANDS_ALONE: bool = false;
    /// Between the values of a flag that is repeated; absent: the last value counts.
    const SEPARATOR: Option<char> = None;

    /// Reads a value.
    ///
    /// # Errors
    /// Why the text is none.
    fn read(text: &str) -> Result<Self, String>;

    /// For `/configz`, and printed for `/flagz`, the log and the documentation.
    fn show(&self) -> Value;
}

impl FlagType for bool {
    const NAME: &str = "bool";
    const STANDS_ALONE: Self = true;

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("it must be true or false".into()),
        }
    }

    fn show(&self) -> Value {
        (*self).into()
    }
}

/// A number that is read by this function.
macro_rules! number {
    ($type:ident, $name:literal, $read:path) => {
        impl FlagType for $type {
            const NAME: &str = $name;

            fn read(text: &str) -> Result<Self, String> {
                $read(text)
            }

            fn show(&self) -> Value {
                let text = self.to_string();
                serde_json::from_str(&text).unwrap_or(text.into())
            }
        }
    };
}
number!(i32, "int32", number::int32);
number!(i64, "int", number::int);
number!(u32, "Level", number::level);
number!(f32, "float32", number::float32);
number!(f64, "float64", number::float64);

impl FlagType for String {
    const NAME: &str = "string";

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> Value {
        without_login(self).into()
    }
}

/// Types that read and print themselves.
macro_rules! text {
    ($($type:ident, $name:literal;)+) => {$(
        impl FlagType for $type {
            const NAME: &str = $name;

            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: <Self as FromStr>::Err| error.to_string())
            }

            fn show(&self) -> Value {
                self.to_string().into()
            }
        }
    )+};
}
text! {
    GoDuration, "duration";
    Endpoint, "string";
}

/// An address to listen on; an empty text is every address.
impl FlagType for IpAddr {
    const NAME: &str = "ip";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self::from([0, 0, 0, 0])),
            text => text.parse().map_err(|_| "it is not an IP address".into()),
        }
    }

    fn show(&self) -> Value {
        self.to_string().into()
    }
}

/// A list: commas split, and `"a,b"` in quotes is one item.
impl FlagType for Vec<String> {
    const NAME: &str = "strings";
    const SEPARATOR: Option<char> = Some(',');

    fn read(text: &str) -> Result<Self, String> {
        let mut items = Self::new();
        let mut rest = (!text.is_empty()).then_some(text);
        while let Some(text) = rest {
            let (item, tail) = if let Some(text) = text.strip_prefix('"') {
                quoted_item(text)?
            } else {
                let (item, tail) = text.split_at(text.find(',').unwrap_or(text.len()));
                (item.to_owned(), tail)
            };
            items.push(item);
            rest = tail.strip_prefix(',');
            if rest.is_none() && !tail.is_empty() {
                return Err("a comma must follow a closing quote".into());
            }
        }
        Ok(items)
    }

    fn show(&self) -> Value {
        self.clone().into()
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

impl FlagType for Vec<i32> {
    const NAME: &str = "int32Slice";
    const SEPARATOR: Option<char> = Some(',');

    fn read(text: &str) -> Result<Self, String> {
        let items = text.split(',').filter(|_| !text.is_empty());
        items
            .map(|item| number::int32(item.trim()).map_err(|reason| format!("{item:?}: {reason}")))
            .collect()
    }

    fn show(&self) -> Value {
        self.clone().into()
    }
}

/// `CERT,KEY[:DOMAINS]`, several joined by semicolons; nothing reads them.
pub(crate) struct NamedCertKeys(String);

impl FlagType for NamedCertKeys {
    const NAME: &str = "namedCertKey";
    const SEPARATOR: Option<char> = Some(';');

    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }

    fn show(&self) -> Value {
        format!("[{}]", self.0).into()
    }
}

/// An amount of bytes: `512`, `1K`, `2Ki`.
pub(crate) struct Quantity(String);

impl FlagType for Quantity {
    const NAME: &str = "quantity";

    fn read(text: &str) -> Result<Self, String> {
        const SUFFIXES: [&str; 13] = [
            "", "k", "K", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
        ];
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if suffix == text || !SUFFIXES.contains(&suffix) {
            return Err("it is not an amount of bytes such as 512, 1K or 2Ki".into());
        }
        Ok(Self(text.to_owned()))
    }

    fn show(&self) -> Value {
        self.0.clone().into()
    }
}

/// Which version text is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    None,
    Short,
    Raw,
}

impl FlagType for Version {
    const NAME: &str = "version";
    const STANDS_ALONE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "false" => Ok(Self::None),
            "true" => Ok(Self::Short),
            "raw" => Ok(Self::Raw),
            _ => Err("it must be true, false or raw; another version cannot be pretended".into()),
        }
    }

    fn show(&self) -> Value {
        match self {
            Self::None => "false".into(),
            Self::Short => "true".into(),
            Self::Raw => "raw".into(),
        }
    }
}

/// `PATTERN=N`, several joined by commas.
impl FlagType for Vec<ModuleVerbosity> {
    const NAME: &str = "pattern=N,...";
    const SEPARATOR: Option<char> = Some(',');

    fn read(text: &str) -> Result<Self, String> {
        let items = text.split(',').filter(|item| !item.is_empty());
        items.map(module_verbosity).collect()
    }

    fn show(&self) -> Value {
        let items = self
            .iter()
            .map(|item| format!("{}={}", item.pattern, item.verbosity));
        items.collect::<Vec<_>>().join(",").into()
    }
}

fn module_verbosity(item: &str) -> Result<ModuleVerbosity, String> {
    let (pattern, verbosity) = item
        .split_once('=')
        .filter(|(pattern, _)| !pattern.is_empty())
        .ok_or_else(|| format!("{item:?} does not have the pattern=N format"))?;
    let verbosity = verbosity
        .parse()
        .map_err(|_| format!("in {item:?}, {verbosity:?} is not a level such as 4"))?;
    Ok(ModuleVerbosity {
        pattern: pattern.to_owned(),
        verbosity,
    })
}

#[cfg(test)]
mod tests;
