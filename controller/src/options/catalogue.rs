//! The flags as data: for `FLAG:` lines, `/flagz` and the documentation.

use clap::{ArgMatches, Command};

use super::{
    command_line::CommandLine,
    config::FlagValue,
    features::FeatureGates,
    flags::{command, type_of},
    standing::{Standing, deprecation, standing},
    tls::SniPairs,
    values::{GoBool, GoDuration, Int32s, Strings},
};

/// A flag as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without the dashes.
    pub name: String,
    /// As Go's flag library calls it.
    pub kind: String,
    /// As Go prints it.
    pub default: String,
    /// The heading in `--help`, without `flags`.
    pub group: String,
    /// What it does.
    pub help: String,
    /// Not in `--help`.
    pub hidden: bool,
    /// What is printed when it is used.
    pub deprecation: Option<&'static str>,
    /// How it stands to upstream's.
    pub standing: Standing,
}

/// All flags, in the order of `--help`.
pub fn flags() -> Vec<Flag> {
    let command = command();
    let describe = |arg: &clap::Arg| {
        let name = arg.get_long().unwrap_or_default();
        let kind = type_of(arg);
        let default = arg.get_default_values().first();
        let default = default.map(|raw| raw.to_string_lossy()).unwrap_or_default();
        let heading = arg.get_help_heading().unwrap_or_default();
        Flag {
            name: name.into(),
            kind: kind.into(),
            default: as_go(kind, &default),
            group: heading.trim_end_matches(" flags").into(),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            hidden: arg.is_hide_set(),
            deprecation: deprecation(name),
            standing: standing(name),
        }
    };
    command.get_arguments().map(describe).collect()
}

/// All flags by name, with their values.
pub(super) fn values(
    command: &Command,
    matches: &ArgMatches,
    line: &CommandLine,
) -> Vec<FlagValue> {
    let value = |arg: &clap::Arg| {
        let name = arg.get_long().unwrap_or_default();
        let raw = matches
            .get_raw(arg.get_id().as_str())
            .and_then(|mut values| values.next_back());
        FlagValue {
            name: name.into(),
            value: as_go(type_of(arg), &raw.unwrap_or_default().to_string_lossy()),
            explicit: line.is_given(name),
        }
    };
    let mut values: Vec<FlagValue> = command.get_arguments().map(value).collect();
    values.sort_by(|a, b| a.name.cmp(&b.name));
    values
}

/// The value as Go prints one of its type. What cannot be read stays as it is.
fn as_go(kind: &str, raw: &str) -> String {
    fn reprint<T: std::str::FromStr + ToString>(raw: &str) -> String {
        raw.parse::<T>()
            .map_or_else(|_| raw.to_owned(), |value| value.to_string())
    }
    match kind {
        "bool" => reprint::<GoBool>(raw),
        "duration" => reprint::<GoDuration>(raw),
        "strings" => reprint::<Strings>(raw),
        "int32Slice" => reprint::<Int32s>(raw),
        "namedCertKey" => reprint::<SniPairs>(raw),
        "mapStringBool" => reprint::<FeatureGates>(raw),
        _ => raw.to_owned(),
    }
}
