//! `outrigger-testbed sweep`.

use std::{collections::VecDeque, sync::Arc};

use clap::Args;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{note, print};
use crate::{
    Error, Result,
    binaries::of_this_project,
    sweep::{self, Failure, Fault, Programs, Rig, SCENARIOS, Scenario, Swept},
};

#[derive(Debug, Args)]
pub(super) struct Sweep {
    /// Names of scenarios; all of them if left out.
    #[arg(value_name = "SCENARIO", value_parser = sweep::by_name)]
    scenarios: Vec<&'static Scenario>,
    /// The faults.
    #[arg(
        long = "fault",
        value_enum,
        value_delimiter = ',',
        default_value = "kill,omit,past"
    )]
    faults: Vec<Fault>,
    /// Only at this place, counted from 1.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// So many scenarios at a time, each on a control plane of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Leave logs and states behind.
    #[arg(long)]
    keep: bool,
}

impl Sweep {
    /// Prints a line for each scenario and fault. Fails if a run ends otherwise than without a fault.
    pub(super) async fn run(self) -> Result<()> {
        let scenarios: VecDeque<_> = if self.scenarios.is_empty() {
            SCENARIOS.iter().collect()
        } else {
            self.scenarios.into()
        };
        let programs = Programs {
            controller: of_this_project("cloud-controller-manager")?,
            mock: of_this_project("provider-mock")?,
        };
        let jobs = scenarios.len().min(self.jobs.into());
        let scenarios = Arc::new(Mutex::new(scenarios));
        let failures = Arc::new(Mutex::new(Vec::new()));
        let at = self.at.map(|place| place as usize);
        print("SCENARIO                 FAULT  PLACES  RESULT\n")?;
        let mut running = JoinSet::new();
        for _ in 0..jobs {
            let (scenarios, failures) = (Arc::clone(&scenarios), Arc::clone(&failures));
            let (programs, faults, keep) = (programs.clone(), self.faults.clone(), self.keep);
            running.spawn(async move {
                let rig = Rig::start(programs, keep).await?;
                loop {
                    let next = scenarios.lock().pop_front();
                    let Some(scenario) = next else {
                        break;
                    };
                    let done = |swept: Swept| failures.lock().extend(report(&swept));
                    rig.sweep(scenario, &faults, at, done).await?;
                }
                rig.stop().await
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.map_err(|error| Error::io("sweep")(error.into()))??;
        }
        let failures = std::mem::take(&mut *failures.lock());
        if failures.is_empty() {
            return Ok(());
        }
        Err(Error::Swept(failures))
    }
}

/// Prints the line of a scenario with a fault, and what went wrong. Returns the commands that show it again.
fn report(swept: &Swept) -> Vec<String> {
    let Swept {
        scenario,
        fault,
        places,
        failures,
    } = swept;
    let result = match failures.len() {
        0 => "as without a fault".to_owned(),
        count => format!("otherwise at {count}"),
    };
    let _ = print(&format!(
        "{scenario:<24} {fault:<6} {places:>6}  {result}\n"
    ));
    let again = |failure: &Failure| {
        let Failure {
            place,
            error,
            folder,
        } = failure;
        let command = format!("outrigger-testbed sweep {scenario} --fault {fault} --at {place}");
        note(&format!("{command}: {error}"));
        if let Some(folder) = folder {
            note(&format!("logs and states are in {}", folder.display()));
        }
        command
    };
    failures.iter().map(again).collect()
}
