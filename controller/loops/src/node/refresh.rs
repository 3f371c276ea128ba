//! Keeps initialised Nodes in sync with their machines (N-40 to N-47): one snapshot of the cloud a period, and a write only
//! where something differs.
//!
//! ```text
//!  sweep ─► a list, or full batches spread over the period ─► core::node::plan
//!             ├ list too large: batches                                     │
//!             └ nodes that it lacks: batches, up to a budget                │ something to write
//!                                                                           ▼
//!                                                       observed ─► queue ─► sync: writes
//! ```
//!
//! A task of the loop; it never writes itself. A Node that differs from its machine is queued, and its key plans again with
//! the Node of that moment.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use outrigger_api::v1::LookupPreference;
use outrigger_core::node::{
    NodeView, Ready,
    instance::{Instance, Lookup},
    plan::{NodeWarning, Policy},
};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::{CloudNode, memory::NodeMemory};
use crate::queue::Priority;
use outrigger_provider::{Error, InstancesCapability, LookupAnswer, LookupPurpose, Session};

/// The provider may answer from a cache that is at most this part of the period old.
const MAX_STALENESS: f64 = 0.2;

/// For a cloud that needs one call for each instance, a batch has only as many nodes as fall into this
/// time when all nodes are spread over the period.
const BURST_WINDOW: Duration = Duration::from_secs(1);

/// Nodes missing from a snapshot are looked up: a tenth of all nodes a period, but at least this many. The others wait for
/// the next period.
const MIN_BUDGET: usize = 10;

/// A sweep sends the next batch while fewer lookups than this, or than a batch has, are in flight: a lookup that hangs
/// does not delay the others, and a slow provider receives no more than it can answer.
const MIN_IN_FLIGHT: usize = 10;

/// One sweep over all nodes.
struct Sweep<'a> {
    cloud_node: &'a CloudNode,
    session: &'a Session,
    instances: &'a InstancesCapability,
    policy: Policy,
    purpose: LookupPurpose,
    /// Nodes whose instances were found.
    found_instances: usize,
}

impl CloudNode {
    /// Sweeps over all nodes, one period after another. Never returns.
    pub(super) async fn keep_in_sync(&self) {
        let period = self.settings.refresh_period;
        // The boot ID of the process whose list is too large. Batches replace the list until it restarts.
        let mut too_large = None;
        loop {
            let session = self.context.provider.wait_until_serving().await;
            let began = Instant::now();
            if let Some(instances) = &session.instances {
                let sweep = Sweep {
                    cloud_node: self,
                    session: &session,
                    instances,
                    policy: self.policy(instances),
                    purpose: LookupPurpose::Refresh {
                        max_staleness: period.mul_f64(MAX_STALENESS),
                    },
                    found_instances: 0,
                };
                sweep.run(&mut too_large).await;
            }
            // A sweep in batches itself lasts for about the period.
            sleep_until(began + period).await;
        }
    }
}

impl Sweep<'_> {
    async fn run(mut self, too_large: &mut Option<Arc<str>>) {
        let nodes = self.nodes();
        let (total, began) = (nodes.len(), Instant::now());
        if nodes.is_empty() {
            return self.warn_if_none_is_ours();
        }
        // If the provider cannot list, the handshake has already replaced ListAll by another preference.
        let lists = self.instances.preference == LookupPreference::ListAll
            && too_large.as_ref() != Some(&self.session.boot_id);
        let unlisted = if lists { self.list(nodes).await } else { nodes };
        if !unlisted.is_empty() {
            if lists {
                *too_large = Some(self.session.boot_id.clone());
            }
            self.ask_in_batches(unlisted).await;
        }
        let took = began.elapsed().as_secs_f64();
        self.cloud_node.metrics.sweeps.observe(took);
        debug!(found = self.found_instances, total, "nodes refreshed");
    }

    /// Returns the initialised nodes of this provider, paused nodes included, since a paused node still is a target of
    /// load balancers. The order is the same in each sweep, so that each node is looked up once a period.
    fn nodes(&self) -> Vec<Arc<NodeView>> {
        let cloud_node = self.cloud_node;
        let mut nodes = cloud_node.context.nodes.all();
        nodes.retain(|node| {
            !node.is_uninitialized()
                && node.deleted.is_none()
                && cloud_node.may_touch(node, self.instances)
                && !cloud_node.not_managed.knows(node, &self.session.boot_id)
        });
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// A cluster whose Nodes all wait looks like a controller that is well.
    fn warn_if_none_is_ours(&self) {
        let nodes = self.cloud_node.context.nodes.all();
        let is_ours = |node: &Arc<NodeView>| self.cloud_node.may_touch(node, self.instances);
        if let Some(node) = nodes.first()
            && !nodes.iter().any(is_ours)
        {
            warn!(
                nodes = nodes.len(),
                node = &*node.name,
                provider_id = &*node.provider_id,
                prefixes = %self.instances.prefixes,
                "no node is this provider's: each has a provider ID of another one, or is not selected by --node-selector"
            );
        }
    }

    /// Refreshes all nodes from one list. Returns them if the list is too large.
    async fn list(&mut self, nodes: Vec<Arc<NodeView>>) -> Vec<Arc<NodeView>> {
        let mut keys: HashSet<Box<str>> = HashSet::new();
        for node in &nodes {
            keys.insert(Box::from(&*node.name));
            keys.insert(node.provider_id.clone());
        }
        keys.remove("");
        let of_nodes = move |instance: &Instance| {
            keys.contains(&instance.provider_id) || keys.contains(&instance.node_name)
        };
        let provider = &self.cloud_node.context.provider;
        let listed = match provider.instances().list(self.purpose, of_nodes).await {
            Ok(listed) => listed,
            Err(error @ Error::ReplyTooLarge { .. }) => {
                warn!(
                    %error,
                    "the list of instances is too large; they are asked for in batches until another \
                     process of the provider serves"
                );
                return nodes;
            }
            Err(error) => {
                warn!(%error, "instances cannot be listed; trying again in the next period");
                self.cloud_node.metrics.failed(error.class().as_str());
                return Vec::new();
            }
        };
        let lookups = listed.into_iter().map(|i| Lookup::Found(Box::new(i)));
        let lookups: Vec<Lookup> = lookups.collect();
        let (mut by_id, mut by_name) = (HashMap::new(), HashMap::new());
        for lookup in &lookups {
            if let Lookup::Found(instance) = lookup {
                by_id.insert(&*instance.provider_id, lookup);
                by_name.insert(&*instance.node_name, lookup);
            }
        }
        let mut missing = Vec::new();
        for node in nodes {
            let lookup = if node.provider_id.is_empty() {
                by_name.get(&*node.name)
            } else {
                let spelled_otherwise = |lookup: &&&Lookup| match lookup {
                    Lookup::Found(instance) => instance.is_spelled_otherwise(&node),
                    _ => false,
                };
                let by_name = || by_name.get(&*node.name).filter(spelled_otherwise);
                by_id.get(&*node.provider_id).or_else(by_name)
            };
            match lookup {
                Some(lookup) => self.answered(&node, Ok(lookup)),
                None => missing.push(node),
            }
        }
        // A node missing from a list proves nothing: only a lookup does.
        self.ask_in_batches(self.within_budget(&missing)).await;
        Vec::new()
    }

    /// Looks up the nodes in full batches, spread over the period. After an outage or a pause the rest keeps that pace.
    async fn ask_in_batches(&mut self, nodes: Vec<Arc<NodeView>>) {
        let period = self.cloud_node.settings.refresh_period;
        let mut size = self.instances.max_batch_size.max(1);
        if self.instances.preference == LookupPreference::Each {
            let share = BURST_WINDOW.as_secs_f64() / period.as_secs_f64();
            let in_window = (nodes.len() as f64 * share).ceil() as usize;
            size = size.min(in_window.max(1));
        }
        let batches = nodes.chunks(size);
        let pause = period.div_f64(batches.len().max(1) as f64);
        let mut due = Instant::now();
        let mut lookups = FuturesUnordered::new();
        let mut unreadable: Vec<Arc<NodeView>> = Vec::new();
        let mut batches = batches.peekable();
        while batches.peek().is_some() || !lookups.is_empty() {
            let goes_on = batches.peek().is_some() && lookups.len() < size.max(MIN_IN_FLIGHT);
            tokio::select! {
                biased;
                Some((node, answer)) = lookups.next() => match answer {
                    // Another node of the batch may be the cause.
                    Err(Error::Malformed { .. }) => unreadable.push(node),
                    answer => self.answered(&node, answer.as_ref()),
                },
                () = sleep_until(due), if goes_on => {
                    let provider = &self.cloud_node.context.provider;
                    // If the provider went away, the sweep continues with the next one.
                    provider.wait_until_serving().await;
                    provider.instances().unpaused().await;
                    due = Instant::now() + pause;
                    let batch = batches.next().into_iter().flatten();
                    let present = batch.filter_map(|node| present(self.cloud_node, node));
                    lookups.extend(present.map(|node| ask(self.cloud_node, self.purpose, node)));
                }
            }
        }
        // Each in a call of its own, so that no other Node is the cause.
        for node in self.within_budget(&unreadable) {
            // The node may have changed during the lookups before it.
            if let Some(node) = present(self.cloud_node, &node) {
                let (node, answer) = ask(self.cloud_node, self.purpose, node).await;
                self.answered(&node, answer.as_ref());
            }
        }
    }

    /// Returns those of the nodes missing from a snapshot that are looked up in this period.
    fn within_budget(&self, missing: &[Arc<NodeView>]) -> Vec<Arc<NodeView>> {
        let cloud_node = self.cloud_node;
        let nodes = missing.iter().filter_map(|node| present(cloud_node, node));
        let mut nodes: Vec<_> = nodes.collect();
        let budget = MIN_BUDGET.max(cloud_node.context.nodes.len() / 10);
        if nodes.len() > budget {
            let left = nodes.len() - budget;
            warn!(
                left,
                "too many nodes are not in the provider's snapshot to ask about each of them"
            );
            // In random order, so that each node has its turn in some period.
            fastrand::shuffle(&mut nodes);
            for node in nodes.drain(budget..).filter(|node| !node.is_paused()) {
                // One missing node proves nothing, but many of them cast doubt on the provider.
                let lookup = Lookup::Absent { confirmed: false };
                (cloud_node.on_lookup)(&node, Some(&lookup));
            }
        }
        nodes
    }

    /// Applies the answer to a lookup of `node_at_lookup`.
    fn answered(&mut self, node_at_lookup: &NodeView, answer: Result<&Lookup, &Error>) {
        // The absence of a node that was deleted meanwhile says nothing about the provider.
        let Some(node) = present(self.cloud_node, node_at_lookup) else {
            return;
        };
        let node = &node;
        let cloud_node = self.cloud_node;
        let nodes = &cloud_node.context.nodes;
        if node.is_paused() {
            // A paused node is not written, but load balancers use the addresses of its instance.
            if let Ok(Lookup::Found(instance)) = answer {
                let instance = cloud_node.believe(node, instance);
                cloud_node.confirm_instance(node, &instance);
            }
            return;
        }
        (cloud_node.on_lookup)(node, answer.ok());
        if answer.is_ok() {
            // The machine of an earlier answer is stale.
            let forget = |memory: &mut NodeMemory| memory.machine = None;
            cloud_node.state.remember(nodes, node, forget);
        }
        match answer {
            Ok(Lookup::Found(instance)) => self.found(node, instance),
            Ok(Lookup::Absent { .. }) => {
                // The lifecycle loop handles nodes that are not ready.
                if node.ready == Ready::True {
                    cloud_node.metrics.absent_while_ready.inc();
                    cloud_node.warn(node, &NodeWarning::absent_while_ready(node));
                }
            }
            Ok(Lookup::NotManaged { reason }) => {
                let boot_id = &self.session.boot_id;
                cloud_node
                    .not_managed
                    .remember(nodes, node, boot_id, reason);
            }
            Err(error) => {
                cloud_node.metrics.failed(error.class().as_str());
                debug!(node = &*node.name, %error, "node cannot be refreshed");
            }
        }
    }

    /// Queues the node if there is something to write or to warn about.
    fn found(&mut self, node: &Arc<NodeView>, instance: &Instance) {
        self.found_instances += 1;
        let instance = &*self.cloud_node.believe(node, instance);
        self.cloud_node.confirm_instance(node, instance);
        let planned = self.cloud_node.plan(node, instance, &self.policy);
        let is_in_sync = planned.is_ok_and(|plan| plan.is_empty() && plan.warnings.is_empty());
        let maintenance = self.cloud_node.plan_maintenance(node, instance);
        if !is_in_sync || maintenance.is_some() {
            self.cloud_node.remember_machine(node, instance.clone());
            let name = Arc::clone(&node.name);
            self.cloud_node.context.queue.add(name, Priority::Bulk);
        }
    }
}

async fn ask(
    cloud_node: &CloudNode,
    purpose: LookupPurpose,
    node: Arc<NodeView>,
) -> (Arc<NodeView>, Result<Lookup, Error>) {
    let provider = &cloud_node.context.provider;
    let LookupAnswer { result, effects } = provider
        .instances()
        .look_up(Arc::clone(&node), purpose)
        .await;
    if let Some(node) = present(cloud_node, &node)
        && cloud_node.effects.observe(&node, effects)
    {
        let name = Arc::clone(&node.name);
        cloud_node.context.queue.add(name, Priority::Bulk);
    }
    (node, result)
}

/// Returns the node as it is in the store, unless it was replaced or deleted since `earlier` was read: a sweep takes
/// up to a period, and a lookup takes time too.
fn present(cloud_node: &CloudNode, earlier: &NodeView) -> Option<Arc<NodeView>> {
    let node = cloud_node.context.nodes.get(&earlier.name)?;
    let is_same = node.uid == earlier.uid && node.provider_id == earlier.provider_id;
    (is_same && node.deleted.is_none()).then_some(node)
}
