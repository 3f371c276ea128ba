//! Load balancers on the control socket.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Refusal, json, printable, read};
use super::messages::Targets;
use crate::cloud::Cloud;
use crate::load_balancers::{
    AddressMode, LoadBalancer, LoadBalancerRefused, Port, ServiceTag, Target,
};

/// `GET /v1/load-balancers`, and what any change answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownLoadBalancers {
    /// By id; deleted ones as they were.
    pub load_balancers: Vec<ShownLoadBalancer>,
}

/// One load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownLoadBalancer {
    /// `ready`, `provisioning` or `deleting`.
    pub state: String,
    /// How many targets it has.
    pub target_count: usize,
    /// The rest; its targets only when it is shown by itself.
    pub load_balancer: LoadBalancer,
}

/// `POST /v1/load-balancers`: one that no Service of the cluster asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewLoadBalancer {
    /// Its id.
    pub id: String,
    /// Tag of the cluster: its UID, or its name where it has none.
    pub cluster: String,
    /// Tag of the Service; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTag>,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// `POST /v1/load-balancers/edit`: what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EditLoadBalancer {
    /// Its id, the UID of its Service, or `namespace/name`.
    pub target: String,
    /// New addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
    /// New ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<Port>>,
    /// Names of the nodes that are its targets now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// Removes the tag of its Service.
    #[serde(default)]
    pub untag: bool,
}

pub(super) fn list(cloud: &Cloud) -> Answer {
    let without_targets = |one: Arc<LoadBalancer>| {
        let count = one.targets.len();
        let mut shown = LoadBalancer::clone(&one);
        shown.targets = Arc::default();
        shown_with(cloud, shown, count)
    };
    let load_balancers = cloud.load_balancers().into_iter().map(without_targets);
    json(&ShownLoadBalancers {
        load_balancers: load_balancers.collect(),
    })
}

pub(super) fn show(cloud: &Cloud, body: &[u8]) -> Answer {
    shown(cloud, resolve(cloud, &read(body)?)?)
}

pub(super) fn create(cloud: &Cloud, body: &[u8]) -> Answer {
    let new: NewLoadBalancer = read(body)?;
    let tag = new.service.iter();
    let tag = tag.flat_map(|tag| [&tag.namespace, &tag.name, &tag.uid]);
    for text in [&new.id, &new.cluster].into_iter().chain(tag) {
        printable(text)?;
    }
    let now = cloud.config().clock.now();
    let created = cloud.add_load_balancer(LoadBalancer {
        name: new.id.clone(),
        id: new.id,
        cluster: new.cluster,
        service: new.service,
        address_mode: AddressMode::Ip,
        addresses: new.addresses,
        ports: Vec::new(),
        source_ranges: Vec::new(),
        health_check_node_port: 0,
        targets: Arc::default(),
        protected: false,
        created_at: now,
        ready_at: now,
        gone_at: None,
    });
    shown(cloud, [created.map_err(|refused| conflict(&refused))?])
}

pub(super) fn edit(cloud: &Cloud, body: &[u8]) -> Answer {
    let edit: EditLoadBalancer = read(body)?;
    let known = cloud.load_balancer(&edit.target);
    let known = known.ok_or_else(|| unknown(&[edit.target.as_str()]))?;
    let mut changed = LoadBalancer::clone(&known);
    changed.addresses = edit.addresses.unwrap_or(changed.addresses);
    changed.ports = edit.ports.unwrap_or(changed.ports);
    if let Some(nodes) = edit.nodes {
        nodes.iter().try_for_each(|node| printable(node))?;
        let target = |node: String| Target {
            node: node.into(),
            address: None,
        };
        changed.targets = nodes.into_iter().map(target).collect();
    }
    if edit.untag {
        changed.service = None;
    }
    let edited = cloud.edit_load_balancer(changed);
    shown(cloud, [edited.map_err(|refused| conflict(&refused))?])
}

pub(super) fn delete(cloud: &Cloud, body: &[u8]) -> Answer {
    let found = resolve(cloud, &read(body)?)?;
    let deleted = found
        .iter()
        .filter_map(|one| cloud.remove_load_balancer(&one.id));
    shown(cloud, deleted)
}

/// Those that are named; one that is not known refuses them all.
fn resolve(cloud: &Cloud, targets: &Targets) -> Result<Vec<Arc<LoadBalancer>>, Refusal> {
    if targets.all {
        return Ok(cloud.load_balancers());
    }
    let found: Vec<_> = targets
        .targets
        .iter()
        .map(|target| cloud.load_balancer(target).ok_or(target.as_str()))
        .collect();
    let missing: Vec<&str> = found
        .iter()
        .filter_map(|one| one.as_ref().err().copied())
        .collect();
    if missing.is_empty() {
        Ok(found.into_iter().flatten().collect())
    } else {
        Err(unknown(&missing))
    }
}

fn unknown(targets: &[&str]) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        error: format!(
            "there is no load balancer {}; nothing was changed",
            targets.join(", ")
        ),
    }
}

fn conflict(refused: &LoadBalancerRefused) -> Refusal {
    Refusal {
        status: StatusCode::CONFLICT,
        error: refused.to_string(),
    }
}

fn shown(cloud: &Cloud, found: impl IntoIterator<Item = Arc<LoadBalancer>>) -> Answer {
    let shown = |one: Arc<LoadBalancer>| {
        let count = one.targets.len();
        shown_with(cloud, Arc::unwrap_or_clone(one), count)
    };
    json(&ShownLoadBalancers {
        load_balancers: found.into_iter().map(shown).collect(),
    })
}

fn shown_with(
    cloud: &Cloud,
    load_balancer: LoadBalancer,
    target_count: usize,
) -> ShownLoadBalancer {
    ShownLoadBalancer {
        state: load_balancer.state(cloud.config().clock.now()).to_owned(),
        target_count,
        load_balancer,
    }
}
