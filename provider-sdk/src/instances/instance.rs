use std::{collections::BTreeMap, time::SystemTime};

use outrigger_api::v1;

use crate::Address;
use crate::setters::setters;

/// A machine in the cloud. A field at its default changes nothing in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// `<provider name>://…` or with another of the declared prefixes; at most 1,024 bytes. Becomes
    /// `spec.providerID`, which Kubernetes never lets change, so it must never change either.
    pub provider_id: String,
    /// Name that its kubelet registers with; empty if not known. In a list it joins instances to
    /// Nodes that have no provider ID yet.
    pub node_name: String,
    /// A legal label value, or empty: label untouched.
    pub instance_type: String,
    /// In a stable order, at most 64. Empty: addresses untouched.
    pub addresses: Vec<Address>,
    /// A legal label value, or empty: labels untouched.
    pub zone: String,
    /// A legal label value, or empty: labels untouched.
    pub region: String,
    /// Labels to add, at most 64, outside `kubernetes.io` and `k8s.io`.
    pub additional_labels: BTreeMap<String, String>,
    /// State of its machine.
    pub power_state: PowerState,
    /// Pod CIDRs that the cloud allocated to the instance: none, one, or one of each IP family, no other instance's.
    /// With [`allocates_pod_cidrs`](crate::InstancesCapability::allocates_pod_cidrs) they become its
    /// Node's, which Kubernetes never lets change.
    pub pod_cidrs: Vec<String>,
    /// Maintenance of the machine that the cloud has announced; none, or no more.
    pub planned_maintenance: Option<PlannedMaintenance>,
}

/// Work of the cloud on a machine, by which what runs there may be interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedMaintenance {
    /// When it begins; `None`: not known. The same in each answer, until the maintenance is over.
    pub starts_at: Option<SystemTime>,
    /// The work, for people: at most 256 bytes, the same in each answer.
    pub reason: String,
}

impl PlannedMaintenance {
    /// Maintenance that begins then.
    pub fn new(starts_at: impl Into<Option<SystemTime>>, reason: impl Into<String>) -> Self {
        Self {
            starts_at: starts_at.into(),
            reason: reason.into(),
        }
    }

    fn into_wire(self) -> v1::PlannedMaintenance {
        v1::PlannedMaintenance {
            starts_at: self.starts_at.map(Into::into),
            reason: self.reason,
        }
    }
}

/// State of the machine of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PowerState {
    /// Not known, or not asked for: no taint is added or removed.
    #[default]
    Unknown,
    /// Being made or started.
    Pending,
    /// Running.
    Running,
    /// Stopped, and can be started: the Node is tainted and stays.
    Shutdown,
    /// Being deleted; treated as shut down until it is absent.
    Terminating,
}

setters! { Instance {
    with_node_name => node_name: String,
    with_instance_type => instance_type: String,
    with_addresses => addresses: Vec<Address>,
    with_zone => zone: String,
    with_region => region: String,
    with_additional_labels => additional_labels: BTreeMap<String, String>,
    with_pod_cidrs => pod_cidrs: Vec<String>,
    with_planned_maintenance => planned_maintenance: Option<PlannedMaintenance>,
} }

setters! { plain Instance {
    with_power_state => power_state: PowerState,
} }

impl Instance {
    /// A machine with this provider ID, of which nothing else is known.
    pub fn new(provider_id: impl Into<String>) -> Self {
        Self {
            provider_id: provider_id.into(),
            ..Self::default()
        }
    }

    /// The wire form.
    pub(crate) fn into_wire(self) -> v1::Instance {
        v1::Instance {
            provider_id: self.provider_id,
            node_name: self.node_name,
            instance_type: self.instance_type,
            addresses: self.addresses.into_iter().map(Address::into_wire).collect(),
            zone: self.zone,
            region: self.region,
            additional_labels: self.additional_labels.into_iter().collect(),
            power_state: self.power_state.into_wire().into(),
            pod_cidrs: self.pod_cidrs,
            planned_maintenance: self.planned_maintenance.map(PlannedMaintenance::into_wire),
        }
    }
}

impl PowerState {
    fn into_wire(self) -> v1::PowerState {
        match self {
            Self::Unknown => v1::PowerState::Unspecified,
            Self::Pending => v1::PowerState::Pending,
            Self::Running => v1::PowerState::Running,
            Self::Shutdown => v1::PowerState::Shutdown,
            Self::Terminating => v1::PowerState::Terminating,
        }
    }
}
