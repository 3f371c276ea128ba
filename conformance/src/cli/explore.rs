//! `provider-conformance explore`.

use std::{process::ExitCode, time::Duration};

use clap::Args;

use super::{Subject, duration, print, random_run_id};
use crate::{
    explore::{self, Explored, Plan, Trace},
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

    /// Begin no further trace after this time, for example 5m; a shrinking may take as long again
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    duration: Option<Duration>,

    /// The turns of a trace
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..), value_name = "N")]
    steps: u8,

    /// Make, change and delete load balancers: explore does nothing else
    #[arg(long, required = true)]
    allow_mutations: bool,
}

impl Explore {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let count = match self.duration {
            None => Some(self.seeds.unwrap_or(SEEDS)),
            Some(_) => self.seeds,
        };
        let plan = Plan {
            first: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            count,
            duration: self.duration,
            steps: self.steps.into(),
        };
        eprintln!("from seed {}", plan.first);
        let endpoint = self.subject.endpoint.iter();
        let endpoint = endpoint.map(|endpoint| format!(" --endpoint {endpoint}"));
        let inputs = self.subject.inputs.iter();
        let inputs = inputs.map(|path| format!(" --inputs {}", path.display()));
        let options: String = endpoint.chain(inputs).collect();
        let command = format!("provider-conformance explore --allow-mutations{options}");
        let (endpoint, inputs, _folder) = self.subject.read()?;
        let settings = Settings::plain(endpoint, inputs, random_run_id());
        let mut last = String::new();
        // A line for the failure, and for each smaller trace.
        let begins = |explored: &Explored, _: &Trace| {
            let state = explored.progress();
            if explored.failure.is_some() && state != last {
                eprintln!("{state}");
                last = state;
            }
        };
        let explored = explore::explore(settings, plan, command, begins);
        let explored = match Box::pin(explored).await {
            Ok(explored) => explored,
            Err(NoReport::Unreachable(error)) => {
                eprintln!("provider-conformance: {error}");
                return Ok(ExitCode::from(3));
            }
            Err(error) => return Err(error.into()),
        };
        print(&format!("{explored}\n"))?;
        let failed = explored.failure.is_some() || !explored.leftovers.is_empty();
        Ok(ExitCode::from(u8::from(failed)))
    }
}
