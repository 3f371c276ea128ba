//! Messages on the control socket.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cloud::Quota;
use crate::duration;
use crate::faults::Fault;
use crate::instances::Instance;

/// Answer to `status`.
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
    /// Names whose last instance was deleted.
    pub deleted: usize,
    /// How many load balancers there are.
    pub load_balancers: usize,
    /// How many routes there are.
    pub routes: usize,
    /// How many volumes there are.
    pub volumes: usize,
    /// How long a call to the cloud takes, in Go's syntax.
    pub latency: String,
    /// How much that varies: a part of the latency, or a duration.
    pub jitter: String,
    /// How many calls the cloud accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Quota>,
    /// Faults that are set, with what is left of them.
    pub faults: Vec<Fault>,
}

/// Answer to `instances`.
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

/// Which objects are meant: `startInstances`, `stopInstances`, `deleteInstances`, and other objects likewise.
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
    /// `delete` of instances only: begin to delete; the instance stays, as terminating, until deleted again
    #[arg(skip)]
    #[serde(default)]
    pub terminating: bool,
}

/// `announceMaintenance`: announces maintenance of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnnounceMaintenance {
    /// Names, ids or provider IDs; if one is not known, nothing is changed
    #[arg(required = true, value_name = "NAME|ID")]
    pub targets: Vec<String>,
    /// When it begins, such as 2026-12-01T02:00:00Z [default: not known]
    #[arg(long, value_name = "TIME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// The work
    #[arg(long, default_value = "")]
    #[serde(default)]
    pub reason: String,
    /// It is over, or called off
    #[arg(long, conflicts_with_all = ["starts_at", "reason"])]
    #[serde(default)]
    pub over: bool,
}

/// The changed object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// The instances as they are now; deleted ones as they were.
    pub changed: Vec<Instance>,
}

/// `changeCost`: what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChangeCost {
    /// How long a call takes.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub latency: Option<Duration>,
    /// How much that varies: a part of the latency, or a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// How many calls are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<NewQuota>,
}

/// A new quota.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewQuota {
    /// Calls per second; 0: no limit.
    pub qps: f64,
    /// Calls at once; absent: a second's worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// `setFault`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InjectFault {
    /// The fault.
    pub fault: Fault,
    /// Happens after the faults of its kind that are set, instead of taking their place.
    #[serde(default)]
    pub add: bool,
}

/// Answer to `clearFaults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleared {
    /// How many there were.
    pub cleared: usize,
}

/// `closeConnections`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CloseConnections {
    /// How long new connections are left unanswered; absent: not at all.
    #[serde(
        default,
        rename = "for",
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub hold: Option<Duration>,
}

/// Answer to a request to close connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedConnections {
    /// How many connections there were.
    pub closed: usize,
}

/// Any answer that is not 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The failure, its object, and the remedy.
    pub error: String,
}
