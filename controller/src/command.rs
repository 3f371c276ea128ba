//! The commands beside the controller manager itself: `check`, `explain` and `sweep`.

mod check;
mod explain;
mod sweep;

use std::{
    env, fmt,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use comfy_table::{Table, presets};
use outrigger_core::text;

use self::{explain::ExplainCommand, sweep::SweepCommand};

/// Runs the command that the process was started with, if its first word is one. A command line that cannot be read ends the
/// process with the exit code 2.
pub fn run_from_env() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    let ended = match words.next()?.to_str()? {
        "check" => check::run(),
        "explain" => ExplainCommand::parse_from(words).run(),
        "sweep" => SweepCommand::parse_from(words).run(),
        _ => return None,
    };
    Some(ended.unwrap_or_else(|refusal| {
        // A closed stream is no reason to behave otherwise.
        let _ = writeln!(io::stderr(), "Error: {refusal}");
        ExitCode::from(UNUSABLE)
    }))
}

/// Exit code of a command that could not do its work.
const UNUSABLE: u8 = 2;

/// Why a command cannot do its work.
struct Refusal(String);

impl fmt::Display for Refusal {
    /// Nothing in its lines moves a cursor: servers and providers have words in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.lines().map(text::message).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A table with this heading.
pub(crate) fn new_table<const N: usize>(heading: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading);
    table
}
