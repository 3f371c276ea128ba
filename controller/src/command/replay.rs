//! `replay`: makes the decisions of a recording again, and says which are others now.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::ExitCode,
};

use outrigger_core::text;
use outrigger_runtime::{
    VERSION,
    history::{FORMAT, Header, Line},
};
use serde_json::Value;

use super::{Refusal, help, read};
use crate::options::{
    command_line::CommandLine,
    flag::{Flag, Setting, flags},
};

const USAGE: &str = "Usage: cloud-controller-manager replay [--quiet] FILE\n\
                     Makes each decision of a file of --record again, on its inputs, and compares the outcomes. \
                     Needs no cluster. Exit code 1: a decision is another now; 2: the file cannot be read.";

/// The longest line of a recording that is read, in bytes.
const LONGEST: u64 = 64 << 20;

flags! {
    "Replay" {
        /// Print this help and exit.
        help: bool = "false" { short: Some('h') };
        /// Print only the decisions that are others now.
        quiet: bool = "false" { short: Some('q') };
    }
}

/// Counts of the lines of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    same: usize,
    other: usize,
    /// Results of calls and writes.
    notes: usize,
}

pub(super) fn run(words: &[String]) -> Result<ExitCode, Refusal> {
    let line = read(FLAGS, USAGE, words, &[])?;
    let flags = Flags::read(&line)?;
    if flags.help.value {
        return Ok(help(USAGE, FLAGS));
    }
    let [file] = &line.positional[..] else {
        return Err(Refusal(format!("replay takes one file\n{USAGE}")));
    };
    let mut out = io::stdout().lock();
    let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
    let tally = replay(
        BufReader::new(opened),
        Path::new(file),
        flags.quiet.value,
        &mut out,
    )?;
    let Tally { same, other, notes } = tally;
    let decisions = same + other;
    let _ = writeln!(
        out,
        "{decisions} decisions: {same} the same, {other} others now; {notes} results of calls and writes"
    );
    Ok(ExitCode::from(u8::from(other > 0)))
}

/// Makes the decisions of `recording` again, with a line to `out` for each.
fn replay(
    mut recording: impl BufRead,
    file: &Path,
    is_quiet: bool,
    out: &mut impl Write,
) -> Result<Tally, Refusal> {
    let file = file.display();
    let mut tally = Tally::default();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let reading = recording
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut bytes);
        let length = reading.map_err(|error| format!("{file}: {error}"))?;
        if number == 1 {
            check_header(&bytes).map_err(|why| format!("{file}: {why}"))?;
            continue;
        }
        if length == 0 {
            break;
        }
        if bytes.last() != Some(&b'\n') {
            // The process was killed while it wrote, or its disk was full.
            let _ = writeln!(
                io::stderr(),
                "{file}: line {number} is not complete, and left out"
            );
            break;
        }
        let line: Line<'_, Value> = serde_json::from_slice(&bytes)
            .map_err(|error| format!("{file}: line {number} is no decision: {error}"))?;
        let summary = format!(
            "{} {} {} {}: {}",
            line.time,
            text::message(&line.object),
            text::message(&line.kind),
            text::message(&line.rule),
            text::message(&line.text)
        );
        let shown = match line.replay() {
            Ok(true) => {
                tally.same += 1;
                format!("same    {summary}")
            }
            Ok(false) => {
                tally.notes += 1;
                format!("        {summary}")
            }
            Err(difference) => {
                tally.other += 1;
                let mut shown = format!("DIFFERS {summary}  (line {number})");
                let _ = write!(shown, "\n  recorded: {}", difference.recorded);
                let _ = write!(shown, "\n  now:      {}", difference.now);
                shown
            }
        };
        if (!is_quiet || shown.starts_with("DIFFERS")) && writeln!(out, "{shown}").is_err() {
            // Whoever reads it has seen enough.
            break;
        }
    }
    Ok(tally)
}

/// Checks that the first line is that of a recording which this program reads.
fn check_header(line: &[u8]) -> Result<(), String> {
    let header: Header = serde_json::from_slice(line).map_err(|_| {
        "this is no recording: its first line is not the one that --record writes".to_owned()
    })?;
    if header.recording != FORMAT {
        return Err(format!(
            "the recording has format {} of {}, and this program, {VERSION}, reads format {FORMAT}: use that program",
            header.recording,
            text::message(&header.program)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
