//! The command line and the environment: every flag of upstream's cloud-controller-manager, and
//! ours, read by Go's rules and checked together.
//!
//! ```text
//!  words, variables ─► command_line ─► table: a typed field for each flag ─► check ─► Config
//!                                        └─► --help, docs/flags.md, /configz, /flagz
//! ```

pub(crate) mod check;
pub(crate) mod command_line;
pub mod config;
mod configz;
pub mod controllers;
mod features;
pub mod flag;
pub(crate) mod flag_type;
mod help;
pub mod table;

use std::{collections::BTreeMap, ffi::OsString, io::Write, process::ExitCode};

use self::{
    command_line::CommandLine,
    flag_type::Version,
    table::{FLAGS, Flags},
};

use outrigger_runtime::VERSION;

pub use config::Config;

/// The process is to end before it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With exit code 0, after this on standard output.
    Content(String),
    /// With exit code 1, after this on standard error.
    Refusal(String),
}

impl Exit {
    /// A command line that cannot be read.
    fn misuse(error: &str) -> Self {
        Self::Refusal(format!(
            "Error: {error}\nRun 'cloud-controller-manager --help' for a list of all flags.\n"
        ))
    }
}

/// Parses and checks what the process was started with, and prints what there is to print before
/// anything is logged.
///
/// # Errors
/// The exit code to end with.
pub fn parse_from_env() -> Result<Config, ExitCode> {
    let utf8 = |text: OsString| {
        text.into_string()
            .map_err(|text| Exit::misuse(&format!("{} is not UTF-8", text.display())))
    };
    let args: Result<Vec<String>, Exit> = std::env::args_os().skip(1).map(utf8).collect();
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    // A closed stream is no reason to behave otherwise.
    let mut stderr = std::io::stderr();
    match args.and_then(|args| parse_from(&args, &env)) {
        Ok(config) => {
            for notice in &config.notices {
                let _ = writeln!(stderr, "{notice}");
            }
            Ok(config)
        }
        Err(Exit::Content(text)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            Err(ExitCode::SUCCESS)
        }
        Err(Exit::Refusal(text)) => {
            let _ = stderr.write_all(text.as_bytes());
            Err(ExitCode::FAILURE)
        }
    }
}

/// Parses and checks. `args` are those after the program's name, `env` is the environment. Reads
/// no file.
///
/// # Errors
/// The text to print and the exit code to end with.
pub fn parse_from(args: &[String], env: &BTreeMap<String, String>) -> Result<Config, Exit> {
    let misuse = |error: String| Exit::misuse(&error);
    let line = CommandLine::read(FLAGS, args, env).map_err(misuse)?;
    let flags = Flags::read(&line).map_err(misuse)?;
    if flags.help.value {
        return Err(Exit::Content(help::text()));
    }
    let words = line.positional.iter().filter(|word| !word.is_empty());
    let words: Vec<&String> = words.collect();
    if !words.is_empty() {
        return Err(Exit::misuse(&format!(
            "\"cloud-controller-manager\" does not take any arguments, got {words:?}; a switch takes its \
             value as in --leader-elect=false"
        )));
    }
    if let Some(version) = version(flags.version.value) {
        return Err(Exit::Content(version));
    }
    check::check(&flags, &line).map_err(|errors| {
        let errors = match &errors[..] {
            [error] => error.clone(),
            errors => format!("[{}]", errors.join(", ")),
        };
        let mut lines = check::notices(&line);
        lines.push(errors);
        Exit::Refusal(lines.join("\n") + "\n")
    })
}

/// The text of `--version`, if it was given.
fn version(version: Version) -> Option<String> {
    match version {
        Version::None => None,
        Version::Short => Some(format!("Outrigger {VERSION}\n")),
        Version::Raw => Some(format!(
            "outrigger.Version{{Version:\"{VERSION}\", Contract:\"cloudprovider.v1\", \
             Parity:\"cloud-controller-manager v1.37\", Platform:\"{}/{}\"}}\n",
            std::env::consts::OS,
            std::env::consts::ARCH
        )),
    }
}
