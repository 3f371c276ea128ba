//! Keeps initialised nodes in sync with their machines (N-40 to N-47): one snapshot of the cloud a
//! period, and a write only where something differs.
//!
//! ```text
//!  sweep ─► a list, or full batches spread over the period ─► core::node::refresh::plan
//!             ├ too large: batches                                         │
//!             └ what it does not show: asked for singly, under a budget     │ something to write
//!                                                                           ▼
//!                                                       observed ─► queue ─► sync: writes
//! ```

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use outrigger_api::v1::LookupPreference;
use outrigger_core::node::{
    NodeView, Ready,
    initialize::Policy,
    instance::{Instance, Lookup},
    refresh,
};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::{CloudNode, memory::NodeMemory, sync::policy};
use outrigger_provider_client::{Error, InstancesCapability, LookupAnswer, LookupPurpose, Session};
use outrigger_runtime::queue::Priority;

/// A snapshot may be as old as this part of the period, out of the provider's caches.
const STALENESS: f64 = 0.2;

/// A cloud with one call for each instance is asked about so many nodes at once as come in this
/// time when all of them are spread over the period.
const TRICKLE: Duration = Duration::from_secs(1);

/// Nodes that a snapshot did not show and that are asked about singly: a tenth of all, this many at
/// least. The others have to wait for the next period.
const FALLBACK: usize = 10;

/// A sweep goes on while fewer nodes than this, or than a batch, are without an answer: one that hangs does not hold
/// up the others, and one whose provider is slow sends no more than it takes.
const BEHIND: usize = 10;

/// One sweep over all nodes.
struct Sweep<'a> {
    cloud_node: &'a CloudNode,
    session: &'a Session,
    instances: &'a InstancesCapability,
    policy: Policy,
    purpose: LookupPurpose,
    tally: Tally,
}

/// Counts of one sweep, for the log.
#[derive(Debug, Default)]
struct Tally {
    seen: usize,
    differ: usize,
    absent: usize,
    failed: usize,
}

impl CloudNode {
    /// Sweeps over all nodes, one period after another. Never returns.
    pub(super) async fn keep_in_sync(&self) {
        let period = self.settings.refresh_period;
        // The process whose list is too large: batches serve as well.
        let mut too_large = None;
        loop {
            let session = self.context.provider.serving().await;
            let began = Instant::now();
            if let Some(instances) = &session.instances {
                let sweep = Sweep {
                    cloud_node: self,
                    session: &session,
                    instances,
                    policy: policy(instances),
                    purpose: LookupPurpose::Refresh {
                        max_staleness: period.mul_f64(STALENESS),
                    },
                    tally: Tally::default(),
                };
                sweep.run(&mut too_large).await;
            }
            // A sweep that is spread lasts for about the period itself.
            sleep_until(began + period).await;
        }
    }
}

impl Sweep<'_> {
    async fn run(mut self, too_large: &mut Option<Box<str>>) {
        let nodes = self.nodes();
        let (total, began) = (nodes.len(), Instant::now());
        if nodes.is_empty() {
            return;
        }
        // Without the list, the handshake has made it another preference.
        let lists = self.instances.preference == LookupPreference::ListAll
            && too_large.as_ref() != Some(&self.session.boot_id);
        let unlisted = if lists { self.list(nodes).await } else { nodes };
        if !unlisted.is_empty() {
            if lists {
                *too_large = Some(self.session.boot_id.clone());
            }
            self.ask_in_batches(unlisted).await;
        }
        self.cloud_node.metrics.swept(began.elapsed());
        let Tally {
            seen,
            differ,
            absent,
            failed,
        } = self.tally;
        if absent + failed > 0 {
            info!(total, seen, differ, absent, failed, "nodes refreshed");
        } else {
            debug!(total, seen, differ, "nodes refreshed");
        }
    }

    /// Initialised nodes of this provider. One that is paused is a target all the same. In the same order each time, so that
    /// each is looked at once a period.
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

    /// One list for all. Returns the nodes if it is too large.
    async fn list(&mut self, nodes: Vec<Arc<NodeView>>) -> Vec<Arc<NodeView>> {
        let mut wanted: HashSet<Box<str>> = HashSet::new();
        for node in &nodes {
            wanted.insert(Box::from(&*node.name));
            wanted.insert(node.provider_id.clone());
        }
        wanted.remove("");
        let of_nodes = move |instance: &Instance| {
            wanted.contains(&instance.provider_id) || wanted.contains(&instance.node_name)
        };
        let provider = &self.cloud_node.context.provider;
        let listed = match provider
            .instances()
            .list(self.purpose, Arc::new(of_nodes))
            .await
        {
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
                self.tally.failed = nodes.len();
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
            let found = if node.provider_id.is_empty() {
                by_name.get(&*node.name)
            } else {
                let spelled_otherwise = |lookup: &&&Lookup| match lookup {
                    Lookup::Found(instance) => instance.is_spelled_otherwise(&node),
                    _ => false,
                };
                let by_name = || by_name.get(&*node.name).filter(spelled_otherwise);
                by_id.get(&*node.provider_id).or_else(by_name)
            };
            match found {
                Some(lookup) => self.answered(&node, Ok(lookup)),
                None => missing.push(node),
            }
        }
        // Not to be in a list is a hint and no more.
        self.ask_singly(missing).await;
        Vec::new()
    }

    /// Full batches, spread over the period. After an outage or a pause the rest is not sent at once.
    async fn ask_in_batches(&mut self, nodes: Vec<Arc<NodeView>>) {
        let period = self.cloud_node.settings.refresh_period;
        let mut size = self.instances.max_batch_size.max(1);
        if self.instances.preference == LookupPreference::Each {
            let share = TRICKLE.as_secs_f64() / period.as_secs_f64();
            let trickle = (nodes.len() as f64 * share).ceil() as usize;
            size = size.min(trickle.max(1));
        }
        let batches = nodes.chunks(size);
        let pause = period.div_f64(batches.len() as f64);
        let mut due = Instant::now();
        let mut asked = FuturesUnordered::new();
        let mut unreadable: Vec<Arc<NodeView>> = Vec::new();
        let mut batches = batches.peekable();
        while batches.peek().is_some() || !asked.is_empty() {
            let goes_on = batches.peek().is_some() && asked.len() < size.max(BEHIND);
            tokio::select! {
                biased;
                Some((node, answer)) = asked.next() => match answer {
                    // Perhaps for the sake of another node in the batch.
                    Err(Error::Malformed { .. }) => unreadable.push(node),
                    answer => self.answered(&node, answer.as_ref()),
                },
                () = sleep_until(due), if goes_on => {
                    let provider = &self.cloud_node.context.provider;
                    // One that went away is waited for, and the sweep goes on.
                    provider.serving().await;
                    provider.instances().unpaused().await;
                    due = Instant::now() + pause;
                    let batch = batches.next().into_iter().flatten();
                    let present = batch.filter_map(|node| present(self.cloud_node, node));
                    asked.extend(present.map(|node| ask(self.cloud_node, self.purpose, node)));
                }
            }
        }
        self.ask_singly(unreadable).await;
    }

    /// One after the other, and no more than the budget allows.
    async fn ask_singly(&mut self, nodes: Vec<Arc<NodeView>>) {
        let cloud_node = self.cloud_node;
        let present = |node: &Arc<NodeView>| present(cloud_node, node);
        let mut nodes: Vec<_> = nodes.iter().filter_map(present).collect();
        let budget = FALLBACK.max(self.cloud_node.context.nodes.len() / 10);
        if nodes.len() > budget {
            let left = nodes.len() - budget;
            warn!(
                left,
                "too many nodes are not in the provider's snapshot to ask about each of them"
            );
            self.tally.failed += left;
            // Others each time, so that none has to wait for ever.
            fastrand::shuffle(&mut nodes);
            for node in nodes.drain(budget..).filter(|node| !node.is_paused()) {
                // It proves nothing, but many of them speak against the provider.
                let lookup = Lookup::Absent { confirmed: false };
                (self.cloud_node.on_lookup)(&node, &lookup);
            }
        }
        for node in nodes {
            // Each question takes its time.
            if let Some(node) = present(&node) {
                let (node, answer) = ask(cloud_node, self.purpose, node).await;
                self.answered(&node, answer.as_ref());
            }
        }
    }

    fn answered(&mut self, asked: &NodeView, answer: Result<&Lookup, &Error>) {
        // A node that was deleted meanwhile must not speak against the provider.
        let Some(node) = present(self.cloud_node, asked) else {
            return;
        };
        let node = &node;
        let cloud_node = self.cloud_node;
        let nodes = &cloud_node.context.nodes;
        if node.is_paused() {
            // It is not written to, but load balancers send to the addresses that the cloud says.
            if let Ok(Lookup::Found(instance)) = answer {
                self.cloud_node.confirm_instance(node, instance);
            }
            return;
        }
        if let Ok(lookup) = answer {
            (cloud_node.on_lookup)(node, lookup);
            // An earlier observation is stale.
            let forget = |memory: &mut NodeMemory| memory.observed = None;
            cloud_node.state.remember(nodes, node, forget);
        }
        match answer {
            Ok(Lookup::Found(instance)) => self.found(node, instance),
            Ok(Lookup::Absent { .. }) => {
                self.tally.absent += 1;
                // One that is not ready is the lifecycle loop's business.
                if node.ready == Ready::True {
                    cloud_node.metrics.absent_while_ready.inc();
                    warn!(
                        node = &*node.name,
                        provider_id = &*node.provider_id,
                        "the provider knows no instance of this node, but its kubelet is alive; \
                         leaving it alone"
                    );
                }
            }
            Ok(Lookup::NotManaged { reason }) => {
                let boot_id = &self.session.boot_id;
                cloud_node
                    .not_managed
                    .remember(nodes, node, boot_id, reason);
            }
            Err(error) => {
                self.tally.failed += 1;
                cloud_node.metrics.failed(error.class().as_str());
                debug!(node = &*node.name, %error, "node cannot be refreshed");
            }
        }
    }

    /// Queues the node if there is something to write or to say.
    fn found(&mut self, node: &Arc<NodeView>, instance: &Instance) {
        self.tally.seen += 1;
        self.cloud_node.confirm_instance(node, instance);
        let plan = refresh::plan(node, instance, &self.policy);
        if plan.is_empty() && plan.warnings.is_empty() {
            return;
        }
        self.tally.differ += 1;
        let instance = Arc::new(instance.clone());
        let nodes = &self.cloud_node.context.nodes;
        let observe = |memory: &mut NodeMemory| memory.observed = Some(instance);
        self.cloud_node.state.remember(nodes, node, observe);
        let name = Arc::clone(&node.name);
        self.cloud_node.context.queue.add(name, Priority::Bulk);
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

/// The node as the store has it now, if it is still the one that was to be asked about: a sweep takes up
/// to a period, and an answer takes its time too.
fn present(cloud_node: &CloudNode, seen: &NodeView) -> Option<Arc<NodeView>> {
    let node = cloud_node.context.nodes.get(&seen.name)?;
    let is_same = node.uid == seen.uid && node.provider_id == seen.provider_id;
    (is_same && node.deleted.is_none()).then_some(node)
}
