//! The commands beside the controller manager itself: `explain` and `sweep`.

mod explain;
mod sweep;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use comfy_table::{Attribute, Cell, Table, presets};

use crate::options::{command_line::CommandLine, flag::Flag};

/// Runs the command that the process was started with, if its first word is one.
pub fn run_from_env() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    let command = match words.next()?.to_str()? {
        "explain" => explain::run,
        "sweep" => sweep::run,
        _ => return None,
    };
    let utf8 = |word: OsString| {
        word.into_string()
            .map_err(|word| Refusal(format!("{} is not UTF-8", word.display())))
    };
    let words: Result<Vec<String>, Refusal> = words.map(utf8).collect();
    let ended = words.and_then(|words| command(&words));
    Some(ended.unwrap_or_else(|Refusal(text)| {
        // A closed stream is no reason to behave otherwise.
        let _ = writeln!(io::stderr(), "Error: {text}");
        ExitCode::from(UNUSABLE)
    }))
}

/// Exit code of a command that could not do its work.
const UNUSABLE: u8 = 2;

/// Why a command cannot do its work.
struct Refusal(String);

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Reads the words of a command with these flags; of the environment, these variables set flags.
fn read(
    flags: &'static [Flag],
    usage: &str,
    words: &[String],
    variables: &[&str],
) -> Result<CommandLine, Refusal> {
    let set = |name: &&str| Some(((*name).to_owned(), env::var(name).ok()?));
    let variables: BTreeMap<_, _> = variables.iter().filter_map(set).collect();
    let line = CommandLine::read(flags, words, &variables);
    line.map_err(|error| Refusal(format!("{error}\n{usage}")))
}

/// Prints the usage of a command.
fn help(usage: &str, flags: &[Flag]) -> ExitCode {
    let mut text = format!("{usage}\n\nFlags:\n");
    for flag in flags {
        // Writing to a String cannot fail.
        let _ = write!(text, "  --{}\n          {}\n", flag.name(), flag.help);
    }
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// A table with this heading.
pub(crate) fn new_table<const N: usize>(heading: [&str; N], is_colored: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heading.map(|text| {
        let cell = Cell::new(text);
        if is_colored {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    table
}

/// Returns true if standard output is a terminal whose user has not turned colours off.
pub(crate) fn is_colored() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none()
}
