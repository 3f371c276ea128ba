//! Load balancers on the control socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::commands::Targets;
use super::server::{Refusal, chosen, printable};
use crate::cloud::Cloud;
use crate::load_balancers::{AddressMode, LoadBalancer, Port, ServiceTag, Target};

/// Answer to `loadBalancers`, and to any change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownLoadBalancers {
    /// By id; deleted ones as they were.
    pub load_balancers: Vec<LoadBalancer>,
}

/// `createLoadBalancer`: one that no Service of the cluster asked for.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewLoadBalancer {
    /// Its id
    pub id: String,
    /// Tag of the cluster: its UID, or its name where it has none
    #[arg(long)]
    pub cluster: String,
    /// Tag of the Service, as NAMESPACE/NAME/UID [default: none]
    #[arg(long, value_parser = tag, value_name = "TAG")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTag>,
    /// An address; may be repeated
    #[arg(long = "address", value_name = "IP")]
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// `editLoadBalancer`: what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EditLoadBalancer {
    /// Its id, the UID of its Service, or NAMESPACE/NAME
    #[arg(value_name = "ID|UID|NAME")]
    pub target: String,
    /// An address that it has from now on; may be repeated
    #[arg(long = "address", value_name = "IP")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
    /// A port that it has from now on, as TCP/80:30080; may be repeated
    #[arg(long = "port", value_name = "PORT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<Port>>,
    /// A node that is its target from now on; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// Remove the tag of its Service
    #[arg(long)]
    #[serde(default)]
    pub untag: bool,
}

fn tag(text: &str) -> Result<ServiceTag, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [namespace, name, uid] = parts[..] else {
        return Err(format!("{text:?} is no tag; write NAMESPACE/NAME/UID"));
    };
    Ok(ServiceTag {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    })
}

type Answer = Result<ShownLoadBalancers, Refusal>;

pub(super) fn list(cloud: &Cloud) -> ShownLoadBalancers {
    shown(cloud.load_balancers())
}

pub(super) fn create(cloud: &Cloud, new: NewLoadBalancer) -> Answer {
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
        options: BTreeMap::new(),
        targets: Arc::default(),
        protected: false,
        created_at: now,
        ready_at: now,
        gone_at: None,
    });
    Ok(shown([created?]))
}

pub(super) fn edit(cloud: &Cloud, edit: EditLoadBalancer) -> Answer {
    let load_balancer = cloud.load_balancer(&edit.target);
    let load_balancer = load_balancer.ok_or_else(|| {
        Refusal(format!(
            "there is no load balancer {}; nothing was changed",
            edit.target
        ))
    })?;
    let mut changed = LoadBalancer::clone(&load_balancer);
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
    Ok(shown([cloud.edit_load_balancer(changed)?]))
}

pub(super) fn delete(cloud: &Cloud, targets: &Targets) -> Answer {
    let chosen = resolve(cloud, targets)?;
    let removed = chosen.iter();
    let removed = removed.filter_map(|one| cloud.remove_load_balancer(&one.id));
    Ok(shown(removed))
}

fn resolve(cloud: &Cloud, targets: &Targets) -> Result<Vec<Arc<LoadBalancer>>, Refusal> {
    let all = || cloud.load_balancers();
    let named = |target: &str| cloud.load_balancer(target).into_iter().collect();
    chosen("load balancer", targets, all, named)
}

fn shown(load_balancers: impl IntoIterator<Item = Arc<LoadBalancer>>) -> ShownLoadBalancers {
    let load_balancers = load_balancers.into_iter();
    ShownLoadBalancers {
        load_balancers: load_balancers.map(Arc::unwrap_or_clone).collect(),
    }
}
