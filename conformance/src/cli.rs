//! The command line: `new`, `list`, `run`, `explore`, `table`, `sweep`.

mod explore;
mod new;
mod table;

use std::{
    collections::BTreeSet,
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use outrigger_provider_sdk::Endpoint;

use self::{explore::Explore, new::New, table::Table};
use crate::{
    capability::Capability,
    case::Case,
    cases, describe,
    inputs::Inputs,
    report::{self, Report},
    run::{self, NoReport, Settings},
    sweep,
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
    /// Show all cases
    List(List),
    /// Run the cases against a provider
    Run(Box<Run>),
    /// Change Services, targets and routes at random, with faults, until a rule does not hold
    Explore(Explore),
    /// Make the table of cases and providers from JSON reports
    Table(Table),
    /// Delete load balancers that earlier runs have left in the cloud
    Sweep(Sweep),
}

#[derive(Debug, Args)]
struct List {
    /// Format: a table of text or of Markdown, or JSON
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
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

    /// Run the cases of these capabilities alone; one that is not declared is then a failure
    #[arg(long, value_delimiter = ',', value_enum, value_name = "CAPABILITIES")]
    profile: Vec<Capability>,

    /// Run cases that make, change and delete load balancers and routes
    #[arg(long)]
    allow_mutations: bool,

    /// YAML with failures that are known: case, reason, owner, expires
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,

    /// Write a report; may be repeated
    #[arg(long = "report", value_name = "junit|json=PATH")]
    reports: Vec<ReportFile>,

    /// Fail for cases of level SHOULD too
    #[arg(long)]
    strict: bool,

    /// Names the run in everything that it makes [default: random]
    #[arg(long = "run-id", value_parser = run_id, value_name = "ID")]
    id: Option<String>,
}

#[derive(Debug, Args)]
struct Sweep {
    #[command(flatten)]
    subject: Subject,

    /// Delete what this run may have made; without it, what a list shows of all runs
    #[arg(long = "run-id", value_parser = run_id, value_name = "ID")]
    id: Option<String>,
}

/// `junit=PATH` or `json=PATH`.
#[derive(Clone, Debug)]
enum ReportFile {
    Junit(PathBuf),
    Json(PathBuf),
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("junit", path)) if !path.is_empty() => Ok(Self::Junit(path.into())),
            Some(("json", path)) if !path.is_empty() => Ok(Self::Json(path.into())),
            _ => Err("write junit=PATH or json=PATH".to_owned()),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let read: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "write a duration, such as 90s or 10m".to_owned())?;
    read.try_into()
        .map_err(|_| "write a duration above 0".to_owned())
}

fn run_id(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (1..=16).contains(&text.len()) && text.chars().all(legal) {
        Ok(text.to_owned())
    } else {
        Err("write 1 to 16 lower case letters and digits".to_owned())
    }
}

impl Cli {
    /// Does what the command line says. An error is one of the command line or of a file.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::New(command) => command.run(),
            Command::List(list) => list.run(),
            Command::Run(command) => Box::pin(command.run()).await,
            Command::Explore(command) => Box::pin(command.run()).await,
            Command::Table(command) => command.run(),
            Command::Sweep(command) => Box::pin(command.run()).await,
        }
    }
}

impl List {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let cases = cases::all();
        let text = match self.format {
            Format::Text => describe::table(&cases, std::io::stdout().is_terminal()),
            Format::Markdown => describe::markdown(&cases),
            Format::Json => describe::json(&cases)?,
        };
        print(&text)
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
            profiles: self.profile.into_iter().collect::<BTreeSet<_>>(),
            allow_mutations: self.allow_mutations,
            run_id: self.id.unwrap_or_else(random_run_id),
        };
        if !cases.iter().any(|case| settings.selects(case)) {
            bail!("--only and --profile together select no case");
        }
        let colour = std::io::stdout().is_terminal();
        let ran = run::run(settings, |judged| {
            if let Some(line) = report::line(judged, colour) {
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
        for file in &self.reports {
            file.write(&report)?;
        }
        let counts = report.counts();
        let failed =
            counts.failed > 0 || (self.strict && counts.warned > 0) || !report.leftovers.is_empty();
        Ok(ExitCode::from(u8::from(failed)))
    }
}

impl Sweep {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let (endpoint, inputs, _folder) = self.subject.read()?;
        let run_id = self.id.clone().unwrap_or_else(random_run_id);
        let settings = Settings::plain(endpoint, inputs, run_id);
        match Box::pin(sweep::sweep(settings, self.id.is_some())).await {
            Ok(swept) => {
                println!("{swept}");
                Ok(ExitCode::from(u8::from(!swept.is_clean())))
            }
            Err(error) => {
                eprintln!("provider-conformance: {error}");
                Ok(ExitCode::from(3))
            }
        }
    }
}

impl ReportFile {
    fn write(&self, report: &Report) -> anyhow::Result<()> {
        let (path, text) = match self {
            Self::Junit(path) => (path, report::junit(report)?),
            Self::Json(path) => (path, serde_json::to_string_pretty(&report::json(report))?),
        };
        std::fs::write(path, text).with_context(|| format!("the report {}", path.display()))
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
