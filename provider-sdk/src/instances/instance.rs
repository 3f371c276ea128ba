use std::collections::BTreeMap;
use std::net::IpAddr;

use outrigger_api::v1;

/// A machine in the cloud. What is left at its default changes nothing in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Whether it runs.
    pub power_state: PowerState,
    /// Pod CIDRs the cloud gave the instance: none, one, or one of each IP family.
    pub pod_cidrs: Vec<String>,
}

/// One address of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `InternalIP`.
    InternalIp(IpAddr),
    /// `ExternalIP`.
    ExternalIp(IpAddr),
    /// `Hostname`.
    Hostname(String),
    /// `InternalDNS`.
    InternalDns(String),
    /// `ExternalDNS`.
    ExternalDns(String),
    /// A type that Kubernetes learnt after this crate was made.
    Other {
        /// Kubernetes' name of the type.
        kind: String,
        /// The address.
        address: String,
    },
}

/// Whether an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Instance {
    /// The wire form.
    pub(crate) fn into_wire(self) -> v1::Instance {
        v1::Instance {
            provider_id: self.provider_id,
            node_name: self.node_name,
            instance_type: self.instance_type,
            addresses: self.addresses.into_iter().map(Into::into).collect(),
            zone: self.zone,
            region: self.region,
            additional_labels: self.additional_labels.into_iter().collect(),
            power_state: v1::PowerState::from(self.power_state).into(),
            pod_cidrs: self.pod_cidrs,
        }
    }
}

impl From<Address> for v1::NodeAddress {
    fn from(address: Address) -> Self {
        let (kind, address) = match address {
            Address::InternalIp(ip) => ("InternalIP", ip.to_string()),
            Address::ExternalIp(ip) => ("ExternalIP", ip.to_string()),
            Address::Hostname(name) => ("Hostname", name),
            Address::InternalDns(name) => ("InternalDNS", name),
            Address::ExternalDns(name) => ("ExternalDNS", name),
            Address::Other { kind, address } => {
                return Self {
                    r#type: kind,
                    address,
                };
            }
        };
        Self {
            r#type: kind.to_owned(),
            address,
        }
    }
}

impl From<PowerState> for v1::PowerState {
    fn from(state: PowerState) -> Self {
        match state {
            PowerState::Unknown => Self::Unspecified,
            PowerState::Pending => Self::Pending,
            PowerState::Running => Self::Running,
            PowerState::Shutdown => Self::Shutdown,
            PowerState::Terminating => Self::Terminating,
        }
    }
}
