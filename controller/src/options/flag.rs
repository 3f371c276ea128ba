//! A flag as data, and the macro that makes a table of flags with a typed field for each.

use std::{fmt, ops::Deref};

use serde_json::Value;

use super::flag_type::FlagType;

/// A flag as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name with underscores.
    pub(crate) field: &'static str,
    /// The letter for a single hyphen.
    pub(crate) short: Option<char>,
    /// The heading in `--help`, without `flags`.
    pub group: &'static str,
    /// The help text; empty for a flag without effect.
    pub help: &'static str,
    /// The type as Go's flag library calls it.
    pub kind: &'static str,
    /// The default in the form of the command line.
    pub(crate) default: &'static str,
    /// How it stands to upstream's.
    pub parity: Parity,
    /// The warning for its use. Such a flag is not in `--help`.
    pub deprecated: Option<&'static str>,
    /// Its field in upstream's configuration object, such as `Generic.Port`; empty: none.
    pub(crate) configz: &'static str,
    /// The flag may stand without a value, and means `true` then.
    pub(crate) stands_alone: bool,
    /// Between the values of a flag that is repeated; absent: the last value counts.
    pub(crate) separator: Option<char>,
    /// A text for this flag as the value that it stands for.
    pub(crate) show: fn(&str) -> Value,
}

/// How a flag stands to upstream's of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// Type, default and meaning are upstream's.
    Same,
    /// Our default or range differs, for this reason.
    Better(&'static str),
    /// Accepted, but nothing depends on it, for this reason.
    NoEffect(&'static str),
    /// Upstream has none, which is added for this reason.
    Ours(&'static str),
}

impl Flag {
    /// One of upstream's flags, with upstream's meaning.
    pub(crate) const fn new<T: FlagType>(
        field: &'static str,
        group: &'static str,
        help: &'static str,
        default: &'static str,
    ) -> Self {
        Self {
            field,
            short: None,
            group,
            help: help.trim_ascii(),
            kind: T::NAME,
            default,
            parity: Parity::Same,
            deprecated: None,
            configz: "",
            stands_alone: T::STANDS_ALONE,
            separator: T::SEPARATOR,
            show: |text| T::read(text).map_or_else(|_| text.into(), |value| value.show()),
        }
    }

    /// Without the dashes before it.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// The default as Go prints it.
    pub fn default(&self) -> String {
        print(&(self.show)(self.default))
    }
}

/// The value in the form in which Go's flag library prints it.
pub(crate) fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(print).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// The value of a flag, which is printed as the flag's name in messages: `--secure-port`.
pub(crate) struct Setting<T> {
    pub(crate) field: &'static str,
    pub(crate) value: T,
}

impl<T> Setting<T> {
    /// The name of the flag, without dashes before it.
    pub(crate) fn name(&self) -> String {
        self.field.replace('_', "-")
    }
}

impl<T> Deref for Setting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name())
    }
}

/// Makes `FLAGS` and the struct `Flags` out of rows, in groups:
///
/// ```text
/// /// The help text.
/// name_with_underscores: Type = "default" { field_of_flag: value };
/// ```
macro_rules! flags {
    ($($group:literal {
        $($(#[doc = $help:literal])* $(#[expect($lint:ident)])? $field:ident: $kind:ty = $default:literal $({
            $($key:ident: $value:expr),+ $(,)?
        })?;)+
    })+) => {
        /// All flags, in the order of `--help`.
        #[allow(unreachable_pub, reason = "tests read those of the controller manager")]
        pub static FLAGS: &[Flag] = &[$($(Flag {
            $($($key: $value,)+)?
            ..Flag::new::<$kind>(stringify!($field), $group, concat!($($help),*), $default)
        },)+)+];

        /// Their values.
        pub(crate) struct Flags {
            $($($(#[doc = $help])* $(#[expect($lint)])? pub(crate) $field: Setting<$kind>,)+)+
        }

        impl Flags {
            /// Reads all values out of their texts.
            ///
            /// # Errors
            /// The first text that is none of its flag's type, in the words of Go's flag library.
            pub(crate) fn read(line: &CommandLine) -> Result<Self, String> {
                Ok(Self {
                    $($($field: line.setting(stringify!($field), $default)?,)+)+
                })
            }
        }
    };
}
pub(crate) use flags;
