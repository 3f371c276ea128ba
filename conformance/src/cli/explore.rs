//! `provider-conformance explore`.

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Subject, duration, print, random_run_id, run_id};
use crate::{
    explore::{self, Explored, Plan, Trace, TraceFile},
    run::{NoReport, Settings},
};

/// Traces where neither a number of seeds nor a time is given.
const SEEDS: u64 = 100;

#[derive(Debug, Args)]
pub(super) struct Explore {
    #[command(flatten)]
    subject: Subject,

    /// The first seed: equal seeds, inputs and --steps make equal traces [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Traces to make, one of each seed [default: 100, or with --duration any number]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Begin no further trace after this time, for example 5m
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    duration: Option<Duration>,

    /// The turns of a trace
    #[arg(long, default_value_t = 8, value_name = "N")]
    steps: usize,

    /// Make this trace alone: its text, or a file of it
    #[arg(long, conflicts_with_all = ["seed", "seeds", "duration", "traces"], value_name = "TEXT|FILE")]
    trace: Option<String>,

    /// Make the traces of all .yaml files in this folder
    #[arg(long, conflicts_with_all = ["seed", "seeds", "duration"], value_name = "FOLDER")]
    traces: Option<PathBuf>,

    /// Make, change and delete load balancers and routes: explore does nothing else
    #[arg(long, required = true)]
    allow_mutations: bool,

    /// Names the run in everything that it makes [default: random]
    #[arg(long = "run-id", value_parser = run_id, value_name = "ID")]
    id: Option<String>,
}

impl Explore {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let plan = self.plan()?;
        if let Plan::Seeds { first, .. } = &plan {
            eprintln!("from seed {first}");
        }
        let mut command = "provider-conformance explore --allow-mutations".to_owned();
        if let Some(endpoint) = &self.subject.endpoint {
            command = format!("{command} --endpoint {endpoint}");
        }
        if let Some(path) = &self.subject.inputs {
            command = format!("{command} --inputs {}", path.display());
        }
        let (endpoint, inputs, _folder) = self.subject.read()?;
        let settings = Settings::plain(endpoint, inputs, self.id.unwrap_or_else(random_run_id));
        let is_terminal = std::io::stderr().is_terminal();
        let explored = explore::explore(settings, plan, command, |explored, trace| {
            if is_terminal {
                progress(explored, trace);
            }
        });
        let explored = match Box::pin(explored).await {
            Ok(explored) => explored,
            Err(NoReport::Unreachable(error)) => {
                eprintln!("provider-conformance: {error}");
                return Ok(ExitCode::from(3));
            }
            Err(error) => return Err(error.into()),
        };
        if is_terminal {
            eprint!("\r\u{1b}[K");
        }
        print(&format!("{explored}\n"))?;
        let failed = explored.failure.is_some() || !explored.leftovers.is_empty();
        Ok(ExitCode::from(u8::from(failed)))
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        if let Some(trace) = &self.trace {
            let path = Path::new(trace);
            if path.is_file() {
                return Ok(Plan::Given(vec![file(path)?]));
            }
            let read: Trace = trace
                .parse()
                .map_err(|error| anyhow::anyhow!("--trace: no file, and no trace: {error}"))?;
            return Ok(Plan::Given(vec![("--trace".to_owned(), read)]));
        }
        if let Some(folder) = &self.traces {
            return folder_of(folder).map(Plan::Given);
        }
        let count = match self.duration {
            None => Some(self.seeds.unwrap_or(SEEDS)),
            Some(_) => self.seeds,
        };
        Ok(Plan::Seeds {
            first: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            count,
            duration: self.duration,
            steps: self.steps,
        })
    }
}

fn progress(explored: &Explored, trace: &Trace) {
    let (traces, turns) = (explored.traces, explored.turns);
    let seconds = explored.took.as_secs();
    let now = trace.to_string();
    let now: String = now.chars().take(60).collect();
    eprint!("\r\u{1b}[K{traces} traces, {turns} turns, {seconds} s: {now}");
    let _ = std::io::stderr().flush();
}

fn file(path: &Path) -> anyhow::Result<(String, Trace)> {
    let at = || format!("the trace {}", path.display());
    let text = std::fs::read_to_string(path).with_context(at)?;
    let read: TraceFile = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(at)?;
    Ok((path.display().to_string(), read.trace))
}

fn folder_of(folder: &Path) -> anyhow::Result<Vec<(String, Trace)>> {
    let at = || format!("the folder of traces {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(at)?;
    let paths: Result<Vec<_>, _> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut paths = paths.with_context(at)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort_unstable();
    if paths.is_empty() {
        bail!("{} has no .yaml file", folder.display());
    }
    paths.iter().map(|path| file(path)).collect()
}
