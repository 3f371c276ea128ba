//! The flags as data: for `FLAG:` lines, `/flagz`, `/configz`, warnings and the documentation.

use clap::{ArgMatches, Command};
use outrigger_core::text::without_login;

use super::{
    command_line::CommandLine,
    config::FlagValue,
    features::FeatureGates,
    flags::{command, type_of},
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
    /// The help text.
    pub help: String,
    /// Not in `--help`.
    pub hidden: bool,
    /// The warning for its use.
    pub deprecation: Option<String>,
    /// How it stands to upstream's.
    pub parity: Parity,
    /// Its field in upstream's configuration object: `Generic.Port`.
    pub configz: Option<String>,
}

/// How a flag stands to upstream's of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parity {
    /// Type, default and meaning are upstream's.
    Same,
    /// Our default or range differs, for this reason.
    Better(String),
    /// Accepted, but nothing depends on it, for this reason.
    NoEffect(String),
    /// Upstream has none.
    Ours(String),
}

/// The text behind `Name: ` in the declaration, which begins a paragraph there.
fn paragraph(arg: &clap::Arg, name: &str) -> Option<String> {
    let text = arg.get_long_help().or_else(|| arg.get_help())?.to_string();
    let mut named = text
        .split("\n\n")
        .filter_map(|paragraph| paragraph.split_once(": "));
    let (_, text) = named.find(|(word, _)| *word == name)?;
    Some(text.to_owned())
}

fn parity(arg: &clap::Arg) -> Parity {
    let no_effect = || paragraph(arg, "No effect").map(Parity::NoEffect);
    let better = || paragraph(arg, "Better").map(Parity::Better);
    let ours = || paragraph(arg, "Ours").map(Parity::Ours);
    no_effect()
        .or_else(better)
        .or_else(ours)
        .unwrap_or(Parity::Same)
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
            deprecation: paragraph(arg, "Deprecated"),
            parity: parity(arg),
            configz: paragraph(arg, "Configz"),
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
            value: without_login(&as_go(
                type_of(arg),
                &raw.unwrap_or_default().to_string_lossy(),
            )),
            explicit: line.is_set(name),
        }
    };
    let mut values: Vec<FlagValue> = command.get_arguments().map(value).collect();
    values.sort_by(|a, b| a.name.cmp(&b.name));
    values
}

/// The value as Go prints one of its type. An unreadable value stays as it is.
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

#[cfg(test)]
mod tests {
    use super::*;

    const READ: [&str; 4] = ["Better", "Ours", "Deprecated", "Configz"];

    #[test]
    fn every_paragraph_of_a_declaration_is_read() {
        for arg in command().get_arguments() {
            let text = arg
                .get_long_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for paragraph in text.split("\n\n").skip(1) {
                let word = paragraph.split(": ").next().unwrap_or_default();
                assert!(READ.contains(&word), "--{}: {paragraph}", arg.get_id());
            }
        }
    }
}
