//! The cost of an incident: the cluster and the cloud at its end, compared with those at the step `count`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use outrigger_testbed::{Error, Result, nodes, services};
use serde::{Deserialize, Serialize};

use super::Damage;
use crate::script::Cloud;

/// The damage of an incident.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Loss {
    /// Nodes that were deleted.
    pub(crate) nodes: Vec<String>,
    /// Load balancers of Services that no user has deleted, and that are gone from the cloud.
    pub(crate) load_balancers: Vec<String>,
    /// Services that have lost an address.
    pub(crate) addresses: Vec<String>,
    /// Load balancers in the cloud that belong to no Service.
    pub(crate) orphaned: Vec<String>,
    /// Calls that change load balancers.
    pub(crate) changes: u64,
    /// Events, without warnings.
    pub(crate) events: i64,
    /// Events of the type Warning.
    pub(crate) warnings: i64,
}

impl Loss {
    /// How much there is of a kind of damage.
    pub(crate) fn of(&self, damage: Damage) -> u64 {
        match damage {
            Damage::Nodes => self.nodes.len() as u64,
            Damage::Orphaned => self.orphaned.len() as u64,
            Damage::Changes => self.changes,
            Damage::Warnings => self.warnings.unsigned_abs(),
        }
    }

    /// Objects that were lost, or orphaned.
    pub(crate) fn objects(&self) -> usize {
        self.nodes.len() + self.load_balancers.len() + self.addresses.len() + self.orphaned.len()
    }
}

/// The cluster and the cloud at one time.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Nodes by name, with their UIDs.
    pub(super) nodes: BTreeMap<String, String>,
    /// Services by UID.
    services: BTreeMap<String, Served>,
    balancers: Vec<Balancer>,
    changes: u64,
    events: i64,
    warnings: i64,
}

#[derive(Debug)]
struct Served {
    name: String,
    addresses: BTreeSet<String>,
    is_deleted: bool,
}

#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) id: String,
    service: Option<String>,
}

impl Snapshot {
    pub(super) async fn take(client: &Client, cloud: &Cloud) -> Result<Self> {
        let listed = nodes::list::<PartialObjectMeta<Node>>(client).await?;
        let nodes = listed.iter().map(|node| (node.name_any(), uid(node)));
        let api = Api::<Service>::namespaced(client.clone(), "default");
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.map_err(Error::kube("cannot list Services"))?;
        let served = |service: &Service| {
            let addresses = services::addresses(service).into_iter().map(str::to_owned);
            let served = Served {
                name: service.name_any(),
                addresses: addresses.collect(),
                is_deleted: service.metadata.deletion_timestamp.is_some(),
            };
            (uid(service), served)
        };
        let events = Api::<Event>::all(client.clone());
        let events = events.list(&ListParams::default()).await;
        let events = events.map_err(Error::kube("cannot list events"))?.items;
        let count = |is_warning: bool| {
            let events = events.iter();
            let events = events
                .filter(|event| (event.type_.as_deref() == Some("Warning")) == is_warning)
                // Those of the leader's election belong to each start of a controller.
                .filter(|event| event.involved_object.kind.as_deref() != Some("Lease"));
            events.map(occurrences).sum()
        };
        Ok(Self {
            nodes: nodes.collect(),
            services: listed.iter().map(served).collect(),
            balancers: cloud.balancers().await?,
            changes: cloud.changes().await?,
            events: count(false),
            warnings: count(true),
        })
    }

    /// The damage from this snapshot to `end`.
    pub(super) fn loss(&self, end: &Self) -> Loss {
        let nodes = self.nodes.iter();
        let nodes = nodes.filter(|(name, uid)| end.nodes.get(*name) != Some(uid));
        let kept_service = |uid: &str| end.services.get(uid).filter(|service| !service.is_deleted);
        let lost = self.balancers.iter().filter(|balancer| {
            let is_wanted = balancer.service.as_deref().and_then(kept_service).is_some();
            is_wanted && !end.balancers.iter().any(|other| other.id == balancer.id)
        });
        let unreachable = self.services.iter().filter(|(uid, before)| {
            kept_service(uid).is_some_and(|after| !before.addresses.is_subset(&after.addresses))
        });
        let orphans = end.balancers.iter().filter(|balancer| {
            let service = balancer.service.as_ref();
            service.is_none_or(|uid| !end.services.contains_key(uid))
        });
        Loss {
            nodes: nodes.map(|(name, _)| name.clone()).collect(),
            load_balancers: lost.map(|balancer| balancer.id.clone()).collect(),
            addresses: unreachable.map(|(_, one)| one.name.clone()).collect(),
            orphaned: orphans.map(|balancer| balancer.id.clone()).collect(),
            changes: end.changes - self.changes,
            events: end.events - self.events,
            warnings: end.warnings - self.warnings,
        }
    }
}

fn uid(object: &impl ResourceExt) -> String {
    object.uid().unwrap_or_default()
}

/// How often an event has occurred: controllers fold those that are alike.
fn occurrences(event: &Event) -> i64 {
    let series = event.series.as_ref().and_then(|series| series.count);
    series.or(event.count).unwrap_or(1).max(1).into()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Balancers {
    load_balancers: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    service: Option<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
}

#[derive(Deserialize)]
struct Counters {
    calls: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Cloud {
    pub(super) async fn balancers(&self) -> Result<Vec<Balancer>> {
        let answer: Balancers = self.ask(&["load-balancers"]).await?;
        let balancers = answer.load_balancers.into_iter().map(|one| Balancer {
            id: one.id,
            service: one.service.map(|owner| owner.uid),
        });
        Ok(balancers.collect())
    }

    /// Calls so far that change load balancers.
    async fn changes(&self) -> Result<u64> {
        let counters: Counters = self.ask(&["counters"]).await?;
        let methods = [
            "EnsureLoadBalancer",
            "UpdateLoadBalancerNodes",
            "DeleteLoadBalancer",
        ];
        let calls = methods.iter().filter_map(|one| counters.calls.get(*one));
        Ok(calls.flat_map(BTreeMap::values).sum())
    }
}
