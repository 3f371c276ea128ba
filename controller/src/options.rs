//! The command line and the environment: every flag of upstream's cloud-controller-manager, and
//! ours, parsed by Go's rules and checked at once.
//!
//! ```text
//!  words, variables ─► command_line ─► flags (clap) ─► check ─► Config
//!                                        └─► catalogue, for --help and the documentation
//! ```

pub mod catalogue;
mod check;
mod command_line;
pub mod config;
mod configz;
pub mod controllers;
pub mod features;
mod flags;
pub mod migration;
mod tls;
pub mod values;

use std::{collections::BTreeMap, error::Error, ffi::OsString, io::Write, process::ExitCode};

use clap::error::{ContextKind, ContextValue};

use self::command_line::CommandLine;

use outrigger_runtime::VERSION;

pub use config::Config;

/// The process is to end before it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 0 after `--help` and `--version`, else 1.
    pub code: u8,
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
}

impl Exit {
    fn content(stdout: String) -> Self {
        Self {
            code: 0,
            stdout,
            stderr: String::new(),
        }
    }

    /// A command line that cannot be read.
    fn misuse(error: &str) -> Self {
        let stderr = format!(
            "Error: {error}\nRun 'cloud-controller-manager --help' for a list of all flags.\n"
        );
        Self::refused(stderr)
    }

    fn refused(stderr: String) -> Self {
        Self {
            code: 1,
            stdout: String::new(),
            stderr,
        }
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
        Err(exit) => {
            let _ = std::io::stdout().write_all(exit.stdout.as_bytes());
            let _ = stderr.write_all(exit.stderr.as_bytes());
            Err(ExitCode::from(exit.code))
        }
    }
}

/// Parses and checks. `args` are those after the program's name, `env` is the environment. Reads
/// no file but that of `--leader-migration-config`.
///
/// # Errors
/// What to print and the exit code to end with.
pub fn parse_from(args: &[String], env: &BTreeMap<String, String>) -> Result<Config, Exit> {
    let mut command = flags::command();
    let line = CommandLine::read(&command, args, env).map_err(|error| Exit::misuse(&error))?;
    let (flags, matches) =
        flags::read(&line.words()).map_err(|error| Exit::misuse(&explain(&error, &line)))?;
    if flags.global.help.0 {
        return Err(Exit::content(format!("{}", command.render_help())));
    }
    let positional: Vec<&String> = line
        .positional
        .iter()
        .filter(|word| !word.is_empty())
        .collect();
    if !positional.is_empty() {
        return Err(Exit::misuse(&format!(
            "\"cloud-controller-manager\" does not take any arguments, got {positional:?}; a \
             switch takes its value as in --leader-elect=false"
        )));
    }
    if let Some(text) = version(&flags.global.version).map_err(|error| Exit::misuse(&error))? {
        return Err(Exit::content(text));
    }
    let values = catalogue::values(&command, &matches, &line);
    check::check(flags, values, &line).map_err(|errors| {
        let errors = match &errors[..] {
            [error] => error.clone(),
            errors => format!("[{}]", errors.join(", ")),
        };
        let mut lines = check::notices(&line);
        lines.push(errors);
        Exit::refused(lines.join("\n") + "\n")
    })
}

/// The text of `--version`, if it was given.
fn version(value: &str) -> Result<Option<String>, String> {
    match value {
        "false" => Ok(None),
        "true" => Ok(Some(format!("Outrigger {VERSION}\n"))),
        "raw" => Ok(Some(format!(
            "outrigger.Version{{Version:\"{VERSION}\", Contract:\"cloudprovider.v1\", \
             Parity:\"cloud-controller-manager v1.37\", Platform:\"{}/{}\"}}\n",
            std::env::consts::OS,
            std::env::consts::ARCH
        ))),
        other => Err(format!(
            "invalid argument {other:?} for \"--version\" flag: it must be true, false or raw; \
             another version cannot be pretended"
        )),
    }
}

/// clap's error about a value, in the words of Go's flag library.
fn explain(error: &clap::Error, line: &CommandLine) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let argument = context(ContextKind::InvalidArg);
    let flag = argument.trim_start_matches('-');
    let flag = flag.split([' ', '[', '=']).next().unwrap_or(flag);
    let value = context(ContextKind::InvalidValue);
    let kind = argument
        .rsplit(['<', '['])
        .next()
        .map(|kind| kind.trim_end_matches(['>', ']']));
    let reason = match (error.source(), kind) {
        (Some(source), Some("Level")) => format!("{source}; it must be a whole number"),
        (Some(source), _) => source.to_string(),
        (None, _) => error.to_string().lines().next().unwrap_or_default().into(),
    };
    format!(
        "invalid argument {value:?} for {}: {reason}",
        line.place(flag)
    )
}
