//! No Pod CIDR is on two Nodes, at any moment that a watch shows.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, pin_mut};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams},
};
use outrigger_testbed::nodes::UNINITIALIZED_TAINT;
use parking_lot::Mutex;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    agreement::typed,
    journal::Journal,
    ledger::{Micros, now},
};

/// Pause before the API server is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Follows the Nodes of a drill, and checks.
pub(super) struct PodCidrs {
    nodes: Api<DynamicObject>,
    ranges: Vec<IpNet>,
    /// The Nodes that exist, with their Pod CIDRs, by UID.
    live_nodes: HashMap<String, (String, Vec<IpNet>)>,
    owners: Owners,
    /// Every UID and Pod CIDR that was ever seen together.
    given: HashSet<(IpNet, String)>,
}

/// The Nodes that have Pod CIDRs. Clones share what the watch shows.
#[derive(Clone, Default)]
pub(super) struct Owners(Arc<Mutex<HashMap<IpNet, Owner>>>);

/// The Node that has a Pod CIDR.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) node: String,
    pub(super) uid: String,
    /// Since when it has all that a route needs.
    pub(super) complete_since: Option<Micros>,
}

impl Owners {
    pub(super) fn of(&self, cidr: IpNet) -> Option<Owner> {
        self.0.lock().get(&cidr).cloned()
    }
}

impl PodCidrs {
    pub(super) fn new(client: &Client, ranges: &[IpNet]) -> Self {
        let kind = ApiResource::erase::<Node>(&());
        Self {
            nodes: Api::all_with(client.clone(), &kind),
            ranges: ranges.to_owned(),
            live_nodes: HashMap::new(),
            owners: Owners::default(),
            given: HashSet::new(),
        }
    }

    /// Fails the test as soon as a Pod CIDR is on two Nodes, changes, or is no block of its range.
    pub(super) async fn watch(&mut self, journal: &Journal, over: &CancellationToken) {
        let watched = over.run_until_cancelled(self.follow()).await;
        if let Some(what) = watched {
            journal.note(&format!("INVARIANT: {what}"));
            panic!("{}: {what}", journal.seed());
        }
    }

    pub(super) fn owners(&self) -> Owners {
        self.owners.clone()
    }

    /// How many were seen.
    pub(super) fn summary(&self) -> String {
        let distinct: HashSet<_> = self.given.iter().map(|(cidr, _)| cidr).collect();
        format!(
            "{} Pod CIDRs were allocated, {} of them different",
            self.given.len(),
            distinct.len()
        )
    }

    /// Returns what does not hold.
    async fn follow(&mut self) -> String {
        loop {
            // Without an API server nothing is allocated either.
            if let Ok(list) = self.nodes.list(&ListParams::default()).await {
                let uids = list
                    .items
                    .iter()
                    .filter_map(|node| node.metadata.uid.as_ref());
                let uids: HashSet<_> = uids.collect();
                self.live_nodes.retain(|uid, _| uids.contains(uid));
                self.owners
                    .0
                    .lock()
                    .retain(|_, owner| uids.contains(&owner.uid));
                let mut items = list.items.into_iter();
                if let Err(what) = items.try_for_each(|node| self.observe(node)) {
                    return what;
                }
                let version = list.metadata.resource_version.unwrap_or_default();
                if let Err(what) = self.follow_from(version).await {
                    return what;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Goes on after each interruption, so that no state is missed, until the API server refuses.
    async fn follow_from(&mut self, mut version: String) -> Result<(), String> {
        let parameters = WatchParams::default();
        loop {
            let events = match self.nodes.watch(&parameters, &version).await {
                Ok(events) => events,
                Err(kube::Error::Api(_)) => return Ok(()),
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            };
            pin_mut!(events);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                        version = node.metadata.resource_version.clone().unwrap_or_default();
                        self.observe(node)?;
                    }
                    WatchEvent::Deleted(node) => {
                        version = node.metadata.resource_version.unwrap_or_default();
                        self.forget(&node.metadata.uid.unwrap_or_default());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => return Ok(()),
                }
            }
        }
    }

    fn observe(&mut self, node: DynamicObject) -> Result<(), String> {
        let node: Node = typed(node);
        let (cidrs, is_complete) = (pod_cidrs(&node), is_complete(&node));
        let name = node.metadata.name.unwrap_or_default();
        let uid = node.metadata.uid.unwrap_or_default();
        let cidrs = cidrs.iter().map(|cidr| cidr.parse());
        let cidrs: Vec<IpNet> = cidrs.collect::<Result<_, _>>().unwrap();
        if cidrs.is_empty() {
            return Ok(());
        }
        let is_block = |(cidr, range): (&IpNet, &IpNet)| {
            cidr.trunc() == *cidr && range.contains(cidr) && cidr.prefix_len() == length(cidr)
        };
        let fits = cidrs.len() == self.ranges.len();
        if !fits || !cidrs.iter().zip(&self.ranges).all(is_block) {
            return Err(format!("{name} ({uid}) has the Pod CIDRs {cidrs:?}"));
        }
        for cidr in &cidrs {
            let mut owners = self.owners.0.lock();
            let owner = owners.entry(*cidr).or_insert_with(|| Owner {
                node: name.clone(),
                uid: uid.clone(),
                complete_since: None,
            });
            if owner.uid != uid {
                let Owner {
                    node, uid: other, ..
                } = owner;
                return Err(format!(
                    "the Pod CIDR {cidr} is on {node} ({other}) and on {name} ({uid})"
                ));
            }
            if owner.complete_since.is_none() && is_complete {
                owner.complete_since = Some(now());
            }
            self.given.insert((*cidr, uid.clone()));
        }
        match self.live_nodes.insert(uid.clone(), (name, cidrs.clone())) {
            Some((name, before)) if before != cidrs => Err(format!(
                "the Pod CIDRs of {name} ({uid}) were {before:?} and are {cidrs:?}"
            )),
            _ => Ok(()),
        }
    }

    fn forget(&mut self, uid: &str) {
        self.live_nodes.remove(uid);
        self.owners.0.lock().retain(|_, owner| owner.uid != uid);
    }
}

/// True if the Node is initialised and has its address.
fn is_complete(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let mut taints = spec.iter().flat_map(|spec| &spec.taints).flatten();
    let status = node.status.as_ref();
    let mut addresses = status.iter().flat_map(|status| &status.addresses).flatten();
    !taints.any(|taint| taint.key == UNINITIALIZED_TAINT)
        && addresses.any(|address| address.type_ == "InternalIP")
}

/// Length of a block's prefix by default.
pub(super) const fn length(cidr: &IpNet) -> u8 {
    match cidr {
        IpNet::V4(_) => 24,
        IpNet::V6(_) => 64,
    }
}

/// The Pod CIDRs of a Node in the API server.
pub(super) fn pod_cidrs(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default()
}
