//! The commands on the control socket and their answers, as `provider-mock ctl` and JSON have them.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::load_balancers::{EditLoadBalancer, NewLoadBalancer};
use super::routes::{EditRoutes, NewRoute};
use crate::cloud::{Quota, part};
use crate::duration;
use crate::faults::Fault;
use crate::instances::{Instance, InstanceSpec, Maintenance};
use crate::volumes::Volume;

/// A command; in JSON a document with its name as the only key.
///
/// The answer about instances is a [`Listed`] or [`Changed`], about other objects [`ShownLoadBalancers`](super::ShownLoadBalancers),
/// [`ShownRoutes`](super::ShownRoutes) or [`ShownVolumes`](super::ShownVolumes); of `status` and `set-cost` a [`Status`], of
/// `SetFault` the [`Fault`], of `clear` a [`Count`], of counters [`Counts`](crate::cloud::Counts).
#[derive(Debug, Clone, PartialEq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Show how the mock is set up and which faults are set
    Status,
    /// List the instances
    List,
    /// Make an instance
    Create(Box<InstanceSpec>),
    /// Stop instances, which stay, shut down
    Stop(Targets),
    /// Start instances
    Start(Targets),
    /// Announce maintenance of instances, or its end
    Maintenance(AnnounceMaintenance),
    /// Delete instances for good, so that they are not synthesised again
    Delete(Targets),
    /// List the load balancers, with their targets
    LoadBalancers,
    /// Put a load balancer into the cloud that no Service asked for
    CreateLoadBalancer(NewLoadBalancer),
    /// Change a load balancer behind the controller's back
    EditLoadBalancer(EditLoadBalancer),
    /// Delete load balancers, protected or not
    DeleteLoadBalancers(Targets),
    /// List the routes
    Routes,
    /// Put a route into the table that no controller asked for
    AddRoute(NewRoute),
    /// Let routes lead elsewhere, behind the controller's back
    EditRoutes(EditRoutes),
    /// Remove routes behind the controller's back
    RemoveRoutes(Targets),
    /// List the volumes
    Volumes,
    /// Make a volume, or let one answer otherwise
    SetVolume(Volume),
    /// Delete volumes
    DeleteVolumes(Targets),
    /// Change what a call to the cloud costs
    SetCost(SetCost),
    /// Set a fault
    #[command(skip)]
    SetFault(SetFault),
    /// Remove all faults and end each call that hangs
    Clear,
    /// Show what was asked of the mock, and what it asked of its cloud
    Counters,
    /// Show the counters, which begin again at zero
    ResetCounters,
}

/// How the mock is set up, and which faults are set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the provider.
    pub provider_name: String,
    /// Version of the mock.
    pub version: String,
    /// Where the contract is served.
    pub endpoint: String,
    /// Where the state is kept, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_file: Option<String>,
    /// True if an instance is made for each node that is asked about.
    pub synthesizes: bool,
    /// Instances by power state.
    pub instances: BTreeMap<String, usize>,
    /// How many load balancers there are.
    pub load_balancers: usize,
    /// How many routes there are.
    pub routes: usize,
    /// How many volumes there are.
    pub volumes: usize,
    /// How long a call to the cloud takes.
    pub latency: String,
    /// How much that varies.
    pub jitter: f64,
    /// How many calls the cloud accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Quota>,
    /// Faults that are set, with what is left of them.
    pub faults: Vec<Fault>,
}

/// All instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Name of the provider: `<provider_name>://<id>` is the provider ID of an instance.
    pub provider_name: String,
    /// All of them, by name.
    pub instances: Vec<Instance>,
    /// Names whose last instance was deleted.
    pub deleted: Vec<String>,
}

/// Which objects are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Targets {
    /// Names, ids or provider IDs; of load balancers also UIDs of Services or NAMESPACE/NAME, of routes destinations, of
    /// volumes handles. If one is not known, nothing is changed
    #[arg(required_unless_present = "all", value_name = "NAME|ID")]
    #[serde(default)]
    pub targets: Vec<String>,
    /// Each that there is
    #[arg(long, conflicts_with = "targets")]
    #[serde(default)]
    pub all: bool,
    /// For `delete` only: begin to delete; the instance stays, as terminating, until it is deleted again
    #[arg(long)]
    #[serde(default)]
    pub terminating: bool,
}

/// Maintenance of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnnounceMaintenance {
    /// Names, ids or provider IDs; if one is not known, nothing is changed
    #[arg(required = true, value_name = "NAME|ID")]
    pub targets: Vec<String>,
    /// Its details
    #[command(flatten)]
    #[serde(default)]
    pub maintenance: Maintenance,
    /// It is over, or called off
    #[arg(long, conflicts_with = "Maintenance")]
    #[serde(default)]
    pub over: bool,
}

/// The instances that were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// The instances as they are now; deleted ones as they were.
    pub changed: Vec<Instance>,
}

/// The cost of a call to the cloud from now on; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SetCost {
    /// How long a call takes, for example 20ms; 0 for an instant cloud
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub latency: Option<Duration>,
    /// How much that varies: a part of it, 0 to 1
    #[arg(long, value_parser = part, value_name = "PART")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Calls per second that are accepted; 0 for no limit
    #[arg(long, allow_negative_numbers = true, value_name = "QPS")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<f64>,
    /// Calls at once [default: a second's worth]
    #[arg(long, requires = "qps", value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// A fault that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SetFault {
    /// The fault.
    pub fault: Fault,
    /// Happens after the faults of its kind that are set, instead of taking their place.
    #[serde(default)]
    pub add: bool,
}

/// How many faults there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The number.
    pub count: usize,
}

/// Any answer that is not 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The failure, its object, and the remedy.
    pub error: String,
}
