//! Published incidents of other controllers, played against a controller on a scripted cloud.
//!
//! `incidents.yaml` has the steps of each; [`Cluster::play`] carries them out, once for each controller, on one API server. The
//! cloud is `provider-mock` for both: upstream's loops call it through `lab/bench/contract`.

mod cluster;
mod loss;

use std::sync::LazyLock;

use serde::Deserialize;

pub(crate) use self::{
    cluster::{Cluster, Programs},
    loss::Loss,
};
use crate::script::Act;

const FILE: &str = include_str!("incidents.yaml");

/// All incidents. A test holds that the file can be read.
pub(crate) static INCIDENTS: LazyLock<Vec<Incident>> =
    LazyLock::new(|| serde_saphyr::from_str(FILE).unwrap_or_default());

/// The incident of a name on a command line.
pub(crate) fn by_name(name: &str) -> Result<&'static Incident, String> {
    let incident = INCIDENTS.iter().find(|incident| incident.name == name);
    incident.ok_or_else(|| {
        let names: Vec<_> = INCIDENTS.iter().map(|one| one.name.as_str()).collect();
        format!("there is no such incident; there are {}", names.join(", "))
    })
}

/// A controller that incidents are played against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Controller {
    /// Upstream's library, with the mock as its cloud.
    Upstream,
    /// cloud-controller-manager of this project.
    Outrigger,
}

/// A published incident.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Incident {
    pub(crate) name: String,
    /// The link to it.
    pub(crate) report: String,
    /// The sequence of events, in one or two sentences.
    pub(crate) story: String,
    /// The damage that was reported.
    pub(crate) damage: Damage,
    /// Flags of `provider-mock serve`.
    #[serde(default)]
    mock: Vec<String>,
    /// Seconds that the cloud does not show a new machine. With none, a Node is never too young to be deleted.
    #[serde(default)]
    visibility_delay: u64,
    steps: Vec<Step>,
}

/// A kind of damage, all of it since the step `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Damage {
    /// Nodes are deleted.
    Nodes,
    /// The cloud has load balancers that belong to no Service.
    Orphaned,
    /// The controller makes calls that change load balancers, though nothing has changed.
    Changes,
    /// The controller reports an error that no action of a user mends.
    Warnings,
}

/// A step of an incident.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    /// The controller is started; if it runs already, it is killed first.
    Start,
    /// Wait for a state that each controller has to bring about.
    Until(State),
    /// So many seconds pass.
    Pass(u64),
    /// Nodes and load balancers that are there now, and Nodes that join later, must not be lost; calls and events count from here.
    Count,
    /// Something happens.
    #[serde(untagged)]
    Act(Act),
}

/// A state to wait for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// The process that was started last holds the Lease.
    Led,
    /// No Node has the taint of a Node that no controller has initialised.
    Initialised,
    /// Each Service has an address.
    Served,
    /// The cloud has no load balancer.
    Withdrawn,
    /// This Node is deleted.
    Gone(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_can_be_read_and_each_is_in_the_docs_with_its_command() {
        let incidents: Vec<Incident> = serde_saphyr::from_str(FILE).unwrap();
        assert!(incidents.len() >= 8);
        let page = include_str!("../../docs/incidents.md");
        for Incident {
            name,
            report,
            steps,
            ..
        } in &incidents
        {
            let command = format!("outrigger-lab incident {name}`");
            assert!(page.contains(&command), "{command} is not in the docs");
            assert!(page.contains(report), "{report} is not in the docs");
            let counts = steps.iter().filter(|step| matches!(step, Step::Count));
            assert_eq!(counts.count(), 1, "{name}");
        }
    }
}
