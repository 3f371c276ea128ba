//! One line for each node and Service.

use std::{borrow::Borrow, time::Duration};

use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, Service},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use serde::Serialize;

use crate::{demo::live::network_unavailable, services};

/// In seconds, no finer than a watch shows.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

fn took(seconds: f64) -> String {
    format!("{seconds:.3}s")
}

fn joined<T: Borrow<str>>(values: impl IntoIterator<Item = T>, separator: &str) -> String {
    let values: Vec<_> = values.into_iter().collect();
    if values.is_empty() {
        "-".to_owned()
    } else {
        values.join(separator)
    }
}

/// Without the prefix of a domain.
fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

/// A row of a table.
pub(super) trait Row<const COLUMNS: usize> {
    const HEADER: [&str; COLUMNS];

    /// Its cells; what there is several of in one is parted by `separator`.
    fn cells(&self, separator: &str) -> [String; COLUMNS];
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRow {
    pub(super) name: String,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    instance_type: Option<String>,
    zone: Option<String>,
    addresses: Vec<NodeAddress>,
    #[serde(rename = "podCIDRs")]
    pub(super) pod_cidrs: Vec<String>,
    /// Status of the condition; "False" once there are routes.
    network_unavailable: Option<String>,
    /// From the registration until it was usable, as a watch saw them.
    seconds_to_initialise: f64,
}

impl NodeRow {
    pub(super) fn new(node: &Node, took: Duration) -> Self {
        let label = |key| node.metadata.labels.as_ref()?.get(key).cloned();
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()),
            instance_type: label("node.kubernetes.io/instance-type"),
            zone: label("topology.kubernetes.io/zone"),
            addresses: status
                .and_then(|status| status.addresses.clone())
                .unwrap_or_default(),
            pod_cidrs: spec
                .and_then(|spec| spec.pod_cidrs.clone())
                .unwrap_or_default(),
            network_unavailable: network_unavailable(node).map(str::to_owned),
            seconds_to_initialise: milliseconds(took),
        }
    }
}

impl Row<6> for NodeRow {
    const HEADER: [&str; 6] = [
        "NODE",
        "PROVIDER ID",
        "ZONE",
        "ADDRESSES",
        "POD CIDRS",
        "TOOK",
    ];

    fn cells(&self, separator: &str) -> [String; 6] {
        let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        // The host name is the first column.
        let addresses = self.addresses.iter().map(|address| &*address.address);
        let addresses = addresses.filter(|address| *address != self.name);
        [
            self.name.clone(),
            or_none(&self.provider_id),
            or_none(&self.zone),
            joined(addresses, separator),
            joined(self.pod_cidrs.clone(), separator),
            took(self.seconds_to_initialise),
        ]
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceRow {
    pub(super) name: String,
    namespace: String,
    addresses: Vec<String>,
    conditions: Vec<Condition>,
    /// From its creation until it had an address, as a watch saw them.
    seconds_to_address: f64,
}

impl ServiceRow {
    pub(super) fn new(service: &Service, took: Duration) -> Self {
        let addresses = services::addresses(service).into_iter();
        Self {
            name: service.metadata.name.clone().unwrap_or_default(),
            namespace: service.metadata.namespace.clone().unwrap_or_default(),
            addresses: addresses.map(str::to_owned).collect(),
            conditions: services::conditions(service).to_vec(),
            seconds_to_address: milliseconds(took),
        }
    }
}

impl Row<4> for ServiceRow {
    const HEADER: [&str; 4] = ["SERVICE", "ADDRESSES", "CONDITIONS", "TOOK"];

    fn cells(&self, separator: &str) -> [String; 4] {
        // Ours are known by their last part.
        let conditions = self.conditions.iter();
        let conditions = conditions.map(|one| format!("{}={}", last_part(&one.type_), one.status));
        [
            self.name.clone(),
            joined(self.addresses.clone(), separator),
            joined(conditions, separator),
            took(self.seconds_to_address),
        ]
    }
}
