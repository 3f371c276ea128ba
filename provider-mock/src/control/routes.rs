//! Routes and volumes on the control socket.

use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::commands::Targets;
use super::server::{Refusal, chosen, printable};
use crate::cidr::Cidr;
use crate::cloud::Cloud;
use crate::routes::{Route, RouteTable, RouteTarget};
use crate::volumes::{Volume, is_malformed, malformed};

/// Answer to `routes`, and to any change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownRoutes {
    /// By name; removed ones as they were.
    pub routes: Vec<Route>,
}

/// `addRoute`: one that no controller asked for.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewRoute {
    /// Its destination; there may be others to it
    #[arg(value_name = "CIDR")]
    pub destination: Cidr,
    /// Its name [default: by-hand-1, by-hand-2 …]
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tag of the cluster: its UID, or its name where it has none [default: the route is of no cluster]
    #[arg(long, value_name = "UID")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Where it leads
    #[command(flatten)]
    #[serde(default)]
    pub target: RouteTarget,
    /// It leads nowhere
    #[arg(long)]
    #[serde(default)]
    pub blackhole: bool,
}

/// `editRoutes`: what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EditRoutes {
    /// Names or destinations; if one is not known, nothing is changed
    #[arg(required = true, value_name = "NAME|CIDR")]
    pub targets: Vec<String>,
    /// Name of the node that they lead to from now on
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Provider ID of the node
    #[arg(long, value_name = "ID")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The address that packets are sent to from now on
    #[arg(long, value_name = "IP")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<IpAddr>,
    /// True if they lead nowhere
    #[arg(long, value_name = "BOOL")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blackhole: Option<bool>,
    /// Remove the tag of the cluster
    #[arg(long)]
    #[serde(default)]
    pub untag: bool,
}

type Answer = Result<ShownRoutes, Refusal>;

pub(super) fn list(cloud: &Cloud) -> ShownRoutes {
    shown(cloud.routes())
}

pub(super) fn add(cloud: &Cloud, new: NewRoute) -> Answer {
    let named = [&new.name, &new.cluster].into_iter().flatten();
    let target = [&new.target.node, &new.target.provider_id];
    named.chain(target).try_for_each(|text| printable(text))?;
    let created_at = cloud.config().clock.now();
    let added = cloud.edit_routes(|table| {
        table.insert(Route {
            name: new.name.unwrap_or_else(|| free_name(table)),
            cluster: new.cluster,
            destination: new.destination,
            target: new.target,
            blackhole: new.blackhole,
            created_at,
        })
    });
    Ok(shown([added?]))
}

pub(super) fn edit(cloud: &Cloud, edit: &EditRoutes) -> Answer {
    let texts = [&edit.node, &edit.provider_id].into_iter().flatten();
    texts.into_iter().try_for_each(|text| printable(text))?;
    let targets = Targets {
        targets: edit.targets.clone(),
        ..Targets::default()
    };
    let edited = cloud.edit_routes(|table| {
        let routes = resolve(table, &targets)?;
        let edited = routes.into_iter().map(|route| {
            let mut route = Route::clone(&route);
            let target = &mut route.target;
            target.node = edit.node.clone().unwrap_or_else(|| target.node.clone());
            let provider_id = edit.provider_id.clone();
            target.provider_id = provider_id.unwrap_or_else(|| target.provider_id.clone());
            target.next_hop = edit.next_hop.or(target.next_hop);
            route.blackhole = edit.blackhole.unwrap_or(route.blackhole);
            if edit.untag {
                route.cluster = None;
            }
            Ok(table.replace(route)?)
        });
        edited.collect::<Result<Vec<_>, Refusal>>()
    });
    Ok(shown(edited?))
}

pub(super) fn remove(cloud: &Cloud, targets: &Targets) -> Answer {
    let removed = cloud.edit_routes(|table| {
        let routes = resolve(table, targets)?;
        for route in &routes {
            table.remove(&route.name);
        }
        Ok::<_, Refusal>(routes)
    });
    Ok(shown(removed?))
}

fn free_name(table: &RouteTable) -> String {
    let mut names = (1..).map(|number| format!("by-hand-{number}"));
    let free = names.find(|name| table.by_name(name).is_none());
    free.unwrap_or_default()
}

/// The routes with these names or destinations.
fn resolve(table: &RouteTable, targets: &Targets) -> Result<Vec<Arc<Route>>, Refusal> {
    let named = |target: &str| {
        let to = target.parse::<Cidr>().ok();
        let to = to.into_iter().flat_map(|to| table.to(to));
        table
            .by_name(target)
            .into_iter()
            .chain(to)
            .cloned()
            .collect()
    };
    let mut routes = chosen("route", targets, || table.iter().cloned().collect(), named)?;
    routes.sort_by(|a, b| a.name.cmp(&b.name));
    routes.dedup_by(|a, b| a.name == b.name);
    Ok(routes)
}

fn shown(routes: impl IntoIterator<Item = Arc<Route>>) -> ShownRoutes {
    ShownRoutes {
        routes: routes.into_iter().map(Arc::unwrap_or_clone).collect(),
    }
}

/// Answer to `volumes`, and to any change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownVolumes {
    /// By handle; deleted ones as they were.
    pub volumes: Vec<Volume>,
}

pub(super) fn list_volumes(cloud: &Cloud) -> ShownVolumes {
    ShownVolumes {
        volumes: cloud.volumes(),
    }
}

pub(super) fn set_volume(cloud: &Cloud, volume: Volume) -> Result<ShownVolumes, Refusal> {
    let texts = volume.zones.iter().chain([&volume.handle, &volume.region]);
    texts.into_iter().try_for_each(|text| printable(text))?;
    if is_malformed(&volume.handle) {
        return Err(Refusal(malformed(&volume.handle)));
    }
    cloud.edit_volumes(|volumes| volumes.insert(volume.handle.clone(), volume.clone()));
    let volumes = vec![volume];
    Ok(ShownVolumes { volumes })
}

pub(super) fn delete_volumes(cloud: &Cloud, targets: &Targets) -> Result<ShownVolumes, Refusal> {
    cloud.edit_volumes(|volumes| {
        let all = || volumes.values().cloned().collect();
        let named = |handle: &str| volumes.get(handle).cloned().into_iter().collect();
        let deleted = chosen("volume", targets, all, named)?;
        for volume in &deleted {
            volumes.remove(&volume.handle);
        }
        Ok(ShownVolumes { volumes: deleted })
    })
}
