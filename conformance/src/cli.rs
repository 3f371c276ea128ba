//! The command line: `new`, `list`, `run`, `explore`.

mod explore;
mod new;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use outrigger_provider_sdk::Endpoint;

use self::{explore::Explore, new::New};
use crate::{
    case::Case,
    cases,
    inputs::Inputs,
    report,
    run::{self, NoReport, Settings},
    waivers::Waivers,
};

/// Holds a cloud provider, in any language, against the contract: plays the controller on its socket,
/// without a cluster.
///
/// Exit codes: 0, all cases of level MUST passed or are waived; 1, one failed, or something is left in
/// the cloud; 2, the command line, inputs or waivers are wrong; 3, the provider cannot be reached or
/// refuses the handshake.
#[derive(Debug, Parser)]
#[command(name = "provider-conformance", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the project of a new provider: it builds, and passes the cases
    New(New),
    /// Show all cases, a line each
    List,
    /// Run the cases against a provider
    Run(Box<Run>),
    /// Change Services and targets at random, with faults, until a rule does not hold
    Explore(Explore),
}

/// Where the provider is and what is known of its cloud.
#[derive(Debug, Args)]
struct Subject {
    /// Where the provider listens [default: a socket in a temporary folder if the inputs have
    /// provider.command, else <unix:///run/outrigger/provider.sock>]
    #[arg(long, env = outrigger_api::ENDPOINT_ENV, value_name = "ENDPOINT")]
    endpoint: Option<Endpoint>,

    /// YAML with facts about the provider's cloud; docs/conformance.md has its keys
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    subject: Subject,

    /// Run these cases alone: ids, or the letters before the dash, such as LBS
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    only: Vec<String>,

    /// Run cases that make, change and delete load balancers and routes
    #[arg(long)]
    allow_mutations: bool,

    /// YAML with failures that are known: case, reason, owner, expires
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,

    /// Write a report as `JUnit` XML, for the pages of CI
    #[arg(long, value_name = "PATH")]
    junit: Option<PathBuf>,

    /// Fail for cases of level SHOULD too
    #[arg(long)]
    strict: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let read: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "write a duration, such as 90s or 10m".to_owned())?;
    read.try_into()
        .map_err(|_| "write a duration above 0".to_owned())
}

impl Cli {
    /// Does what the command line says. An error is one of the command line or of a file.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::New(command) => command.run(),
            Command::List => print(&cases::table()),
            Command::Run(command) => Box::pin(command.run()).await,
            Command::Explore(command) => Box::pin(command.run()).await,
        }
    }
}

impl Subject {
    /// The endpoint and inputs, and the folder in which the socket is if it is temporary.
    fn read(self) -> anyhow::Result<(Endpoint, Inputs, Option<tempfile::TempDir>)> {
        let inputs = match &self.inputs {
            Some(path) => Inputs::read(path)?,
            None => Inputs::default(),
        };
        if let Some(endpoint) = self.endpoint {
            return Ok((endpoint, inputs, None));
        }
        if inputs.provider.command.is_empty() {
            return Ok((Endpoint::from_env()?, inputs, None));
        }
        let folder = tempfile::tempdir().context("a folder for the socket")?;
        let endpoint = Endpoint::unix(folder.path().join("provider.sock"))?;
        Ok((endpoint, inputs, Some(folder)))
    }
}

impl Run {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let cases = cases::all();
        check_selection(&self.only, &cases)?;
        let waivers = match &self.waivers {
            Some(path) => Waivers::read(path, &cases)?,
            None => Waivers::default(),
        };
        let (endpoint, inputs, _folder) = self.subject.read()?;
        let settings = Settings {
            endpoint,
            inputs,
            waivers,
            only: self.only,
            allow_mutations: self.allow_mutations,
            run_id: random_run_id(),
        };
        let ran = run::run(settings, |judged| {
            if let Some(line) = report::line(judged) {
                println!("{line}");
            }
        });
        let report = match Box::pin(ran).await {
            Ok(report) => report,
            Err(NoReport::Unreachable(error)) => {
                eprintln!("provider-conformance: {error}");
                return Ok(ExitCode::from(3));
            }
            Err(error) => return Err(error.into()),
        };
        println!("{}", report::summary(&report));
        if let Some(path) = &self.junit {
            let written = std::fs::write(path, report::junit(&report)?);
            written.with_context(|| format!("the report {}", path.display()))?;
        }
        let [failed, warned] = ["failed", "warning (SHOULD)"].map(|end| report.count(end));
        let failed = failed > 0 || (self.strict && warned > 0) || !report.leftovers.is_empty();
        Ok(ExitCode::from(u8::from(failed)))
    }
}

fn check_selection(only: &[String], cases: &[Case]) -> anyhow::Result<()> {
    for id in only {
        let is_named = |case: &&Case| case.id == id || case.id.split('-').next() == Some(id);
        if !cases.iter().any(|case| is_named(&case)) {
            bail!("--only {id}: no such case; `provider-conformance list` shows all");
        }
    }
    Ok(())
}

fn random_run_id() -> String {
    let letters = "abcdefghijkmnpqrstuvwxyz23456789".as_bytes();
    (0..6)
        .map(|_| char::from(letters[fastrand::usize(..letters.len())]))
        .collect()
}

/// To standard output; a reader that is gone, such as `head`, is no error.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
