//! Sweeps: scenarios played again and again with one fault each, at the first place where it can happen, the second, and so on.
//!
//! `sweeps.yaml` has the scenarios. Each is first played without a fault, which shows the state that each of its steps leads to;
//! with a fault at any place it has to lead to the same states, and then nothing may happen any more.

mod rig;
mod run;
mod state;

use std::{fmt, sync::LazyLock};

use clap::ValueEnum;
use serde::Deserialize;

pub(crate) use self::rig::{Failure, Programs, Rig, Swept};
use crate::script::Act;

const FILE: &str = include_str!("sweeps.yaml");

/// All scenarios. A test holds that the file can be read.
pub(crate) static SCENARIOS: LazyLock<Vec<Scenario>> =
    LazyLock::new(|| serde_saphyr::from_str(FILE).unwrap_or_default());

/// The scenario of a name on a command line.
pub(crate) fn by_name(name: &str) -> Result<&'static Scenario, String> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    scenario.ok_or_else(|| {
        let names: Vec<_> = SCENARIOS.iter().map(|one| one.name.as_str()).collect();
        format!("there is no such scenario; there are {}", names.join(", "))
    })
}

/// Steps of users, kubelets and machines. The next one is taken when the one before has led to its state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    steps: Vec<Act>,
}

/// A fault, which happens once in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// SIGKILL of the controller when its k-th write to a Node, Service or volume, or its k-th call that changes the cloud or what
    /// the provider holds, has been carried out and before it knows; then it is started again
    Kill,
    /// The k-th event of a watch of Nodes, Services or volumes, after the objects that it begins with, is left out; after two
    /// seconds the watch expires
    Omit,
    /// After a step the controller is killed and started again, and its list of Nodes, of Services or of volumes is one from before
    /// the step; the watch shows what has happened since two seconds later
    Past,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Omit => "omit",
            Self::Past => "past",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_can_be_read_and_each_has_its_row_in_the_docs() {
        let scenarios: Vec<Scenario> = serde_saphyr::from_str(FILE).unwrap();
        let page = include_str!("../../docs/evidence.md");
        for Scenario { name, .. } in &scenarios {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
