//! The rule: each goal has a bound, counted from the last change of the object, and from the end of the faults that concern it.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Service};
use outrigger_core::service::condition::TARGETS_IN_SYNC;
use outrigger_testbed::nodes::UNINITIALIZED_TAINT;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        agreement::{Judged, addresses, is_served, targets},
        invariants::Invariants,
        pod_cidrs::pod_cidrs,
    },
    api_server::BURST,
    lookups::WRONG_ADDRESS,
    scene::Scene,
};

/// For a busy machine: what needs no wait takes less than a second on a quiet one.
pub(super) const SLACK: Duration = Duration::from_secs(15);

/// A lookup that hangs delays others by one deadline.
pub(super) const INITIALIZED: Duration = Duration::from_secs(30).saturating_add(SLACK);

/// How long a slow provider takes for each Node, one after the other, and how many register at once.
pub(super) const SLOW_LOOKUP: Duration = Duration::from_secs(3);
pub(super) const SLOW_NODES: u32 = 14;

/// The first call is in vain, as it cannot be answered before its deadline. Its halves can, side by side.
pub(super) const SLOWLY_INITIALIZED: Duration =
    INITIALIZED.saturating_add(SLOW_LOOKUP.saturating_mul(SLOW_NODES.div_ceil(2)));

/// How long a slow update of one load balancer takes.
pub(super) const CALL: Duration = Duration::from_secs(4);

/// A Service that changed waits for one call, whatever else there is to do.
pub(super) const SERVED: Duration = CALL.saturating_add(SLACK);

/// The bound of many Services that are created together, while one call at a time is made: every eighth call is an update.
pub(super) const SERVED_AMONG_MANY: Duration =
    SERVED.saturating_add(CALL.saturating_mul(BURST.div_ceil(7)));

/// New targets reach one load balancer after the other, of a dozen and some more.
const TARGETS: Duration = CALL.saturating_mul(16).saturating_add(SLACK);

/// Others' changes of a route are seen by the next list, which is made every 10 s.
pub(super) const ROUTE: Duration = Duration::from_secs(10).saturating_add(SLACK);

/// Nodes are kept in sync every 5 s.
const REFRESHED: Duration = Duration::from_secs(5).saturating_add(SLACK);

/// A dead connection is noticed within 45 s, and the next one needs a moment.
pub(super) const NOTICED: Duration = Duration::from_secs(50);

const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// How often cluster and cloud are looked at, and the journal in between.
const LISTED: u32 = 4;
const EVERY: Duration = Duration::from_millis(150);

/// Something that an object is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// A Node has lost the taint of one that is new.
    Initialized,
    /// A Node has no address that its instance does not have.
    Addresses,
    /// A ready Node has no taint of one that is shut down: no call is needed to know.
    NotShutDown,
    PodCidrs,
    /// A Node has its routes, and its condition says so.
    Routes,
    /// A route leads to a Node that is there.
    NoStaleRoute,
    /// A Service and its load balancer are as they say, or both are gone.
    Served,
    /// A load balancer has the current Nodes.
    Targets,
    /// A load balancer belongs to a Service.
    NoLeak,
}

impl Goal {
    fn bound(self, scene: &Scene) -> Duration {
        match self {
            Self::Initialized if scene.is_slow => SLOWLY_INITIALIZED,
            Self::Initialized => INITIALIZED,
            Self::Addresses => REFRESHED,
            Self::NotShutDown | Self::PodCidrs => SLACK,
            // The API server is asked about the Node first, which may take as long as a list is late.
            Self::Routes | Self::NoStaleRoute => ROUTE,
            Self::Served | Self::NoLeak => scene.served,
            Self::Targets => TARGETS,
        }
    }
}

/// A goal of an object that is not reached at a moment.
struct Unfulfilled {
    goal: Goal,
    name: String,
    text: String,
}

/// Checks all the time.
pub(super) struct Liveness {
    scene: Scene,
    invariants: Invariants,
    /// Since when each goal is not reached, by the object's name.
    since: HashMap<(Goal, String), Instant>,
    /// The Services that had an address, by UID.
    addressed: HashSet<String>,
    targets: String,
    longest: HashMap<Goal, Duration>,
}

impl Liveness {
    pub(super) fn new(scene: &Scene, invariants: Invariants) -> Self {
        Self {
            scene: scene.clone(),
            invariants,
            since: HashMap::new(),
            addressed: HashSet::new(),
            targets: String::new(),
            longest: HashMap::new(),
        }
    }

    /// Fails the test as soon as a bound or an invariant is broken.
    pub(super) async fn watch(&mut self, over: &CancellationToken) {
        let mut readings = 0_u32;
        while !over.is_cancelled() {
            let mut held = self.invariants.check();
            readings += 1;
            if held.is_ok() && readings.is_multiple_of(LISTED) {
                held = self.check().await;
            }
            if let Err(what) = held {
                let journal = &self.scene.journal;
                journal.note(&format!("BROKEN: {what}"));
                panic!("{}: {what}", journal.seed());
            }
            sleep(EVERY).await;
        }
    }

    /// The longest time that each goal has waited.
    pub(super) fn summary(&self) -> String {
        let mut longest: Vec<_> = self.longest.iter().collect();
        longest.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        let longest = longest.into_iter().map(|(goal, time)| {
            let (time, bound) = (time.as_secs_f64(), goal.bound(&self.scene));
            format!("{goal:?} {time:.1} s of {bound:?}")
        });
        let longest: Vec<_> = longest.collect();
        format!("longest waits: {}", longest.join(", "))
    }

    async fn check(&mut self) -> Result<(), String> {
        // If a server is away, the next check asks it.
        let Ok(all) = self.unfulfilled().await else {
            return Ok(());
        };
        let all = all?;
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.since);
        let mut broken = Vec::new();
        for Unfulfilled { goal, name, text } in all {
            let key = (goal, name);
            let first = before.remove(&key).unwrap_or(now);
            let begun = self.scene.record.begun(goal, &key.1).max(Some(first));
            let waits = begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
            let longest = self.longest.entry(goal).or_default();
            *longest = waits.max(*longest);
            let bound = goal.bound(&self.scene);
            if waits > bound {
                let name = &key.1;
                broken.push(format!(
                    "{name}: {goal:?} is not so after {waits:.1?}, and no fault concerns it; the bound is {bound:?}: {text}"
                ));
            }
            self.since.insert(key, first);
        }
        if broken.is_empty() {
            return Ok(());
        }
        Err(broken.join("\n"))
    }

    /// The outer error: there is no answer. The inner one: an address is gone.
    async fn unfulfilled(&mut self) -> Result<Result<Vec<Unfulfilled>, String>, String> {
        let view = self.scene.view.clone();
        let nodes = view.nodes().await?;
        let of_routes = view.routes.complaints(&nodes).await?;
        let (judged, leaked) = view.judge().await?;
        let current_targets = format!("{:?}", targets(nodes.clone()));
        if current_targets != self.targets {
            self.targets = current_targets;
            self.scene.record.change_targets();
        }
        let mut all = Vec::new();
        let mut add = |goal, name: &str, text: String| {
            let name = name.to_owned();
            all.push(Unfulfilled { goal, name, text });
        };
        for node in &nodes {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            if has_taint(node, UNINITIALIZED_TAINT) {
                add(Goal::Initialized, name, "it has its taint".to_owned());
                continue;
            }
            if is_ready(node) && has_taint(node, SHUTDOWN_TAINT) {
                add(
                    Goal::NotShutDown,
                    name,
                    "it is ready and has the taint".to_owned(),
                );
            }
            if has_address(node, WRONG_ADDRESS) {
                add(Goal::Addresses, name, format!("it has {WRONG_ADDRESS}"));
            }
            let cidrs = pod_cidrs(node);
            if cidrs.len() != self.scene.families {
                add(Goal::PodCidrs, name, format!("they are {cidrs:?}"));
            }
            let mut its = of_routes
                .iter()
                .filter(|one| one.node.as_deref() == Some(name));
            if let Some(complaint) = its.next_back() {
                add(Goal::Routes, name, complaint.text.clone());
            }
        }
        for stale in of_routes.iter().filter(|one| one.node.is_none()) {
            add(Goal::NoStaleRoute, &stale.text, String::new());
        }
        for leak in leaked {
            add(Goal::NoLeak, &leak, String::new());
        }
        for Judged { service, wrong } in judged {
            if let Err(what) = self.keeps_its_address(&service) {
                return Ok(Err(what));
            }
            let name = service.metadata.name.as_deref().unwrap_or_default();
            let is_of_targets = |what: &String| {
                ["targets", TARGETS_IN_SYNC, "it is not settled"]
                    .iter()
                    .any(|start| what.starts_with(start))
            };
            let (of_targets, others): (Vec<_>, Vec<_>) = wrong.into_iter().partition(is_of_targets);
            if !of_targets.is_empty() {
                add(Goal::Targets, name, of_targets.join("; "));
            }
            if !others.is_empty() {
                add(Goal::Served, name, others.join("; "));
            }
        }
        Ok(Ok(all))
    }

    /// A load balancer that serves keeps its address on the Service, whatever an answer leaves out.
    fn keeps_its_address(&mut self, service: &Service) -> Result<(), String> {
        let uid = service.metadata.uid.clone().unwrap_or_default();
        if !is_served(service) {
            self.addressed.remove(&uid);
        } else if !addresses(service).is_empty() {
            self.addressed.insert(uid);
        } else if self.addressed.contains(&uid) {
            let name = service.metadata.name.as_deref().unwrap_or_default();
            return Err(format!(
                "{name} has lost its address, and its load balancer serves"
            ));
        }
        Ok(())
    }
}

fn has_taint(node: &Node, key: &str) -> bool {
    let spec = node.spec.as_ref();
    let mut taints = spec.iter().flat_map(|spec| &spec.taints).flatten();
    taints.any(|taint| taint.key == key)
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status
        .iter()
        .flat_map(|status| &status.conditions)
        .flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

fn has_address(node: &Node, address: &str) -> bool {
    let status = node.status.as_ref();
    let mut addresses = status.iter().flat_map(|status| &status.addresses).flatten();
    addresses.any(|one| one.address == address)
}
