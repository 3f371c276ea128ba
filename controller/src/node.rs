//! The cloud-node loop: takes the taint from nodes whose machine the provider knows (upstream's
//! cloud-node-controller, lines N-1 to N-48 of its behaviour as recorded in the tests).
//!
//! ```text
//!  store ─(changed, tainted)─► queue ─► sync: lookup ─► core::initialize::plan ─► writes ─► event
//!                                        └ many at once, batched   └ --concurrent-node-syncs
//! ```
//!
//! RBAC: `get`, `list`, `watch`, `patch` on `nodes`; `patch` on `nodes/status`; `create`, `patch`
//! on `events`.

mod error;
mod metrics;
mod sync;
mod write;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use outrigger_core::{claims::Claims, initialize, node::NodeView};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::metrics::NodeMetrics;
use crate::{
    kube::{
        api::Api,
        events::Recorder,
        store::{Change, Origin, Store},
    },
    provider::{Provider, State},
    queue::{Backoff, Gate, Priority, Queue, QueueMetrics},
};

/// Name of the loop in `--controllers`, of its health check and of its events' component (N-5).
pub const NAME: &str = "cloud-node-controller";

/// Nodes in hand at once: all of a large cluster, so that a cold start asks in full batches and one
/// slow answer holds up nobody. What a flag limits is the writing.
const IN_HAND: usize = 8192;

/// Annotation by which a person holds a node: `outrigger.dev/paused=true`.
const ANNOTATION_PAUSED: &str = "outrigger.dev/paused";

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Requests under the name `node-controller`, fenced by the leader's time in office.
    pub api: Api,
    /// All nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`NAME`].
    pub events: Recorder,
    /// `--concurrent-node-syncs`: nodes that are written at once.
    pub workers: usize,
    /// `node_controller_*`.
    pub metrics: NodeMetrics,
}

/// The cloud-node loop.
pub struct CloudNode {
    parts: Parts,
    queue: Queue<Arc<str>>,
    writers: Semaphore,
    memory: Arc<Memory>,
}

impl fmt::Debug for CloudNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudNode")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// What the loop remembers of nodes beyond the store. A restart forgets it without harm.
#[derive(Debug, Default)]
struct Memory {
    /// Which node has, or is about to get, which provider id.
    claims: Mutex<Claims>,
    /// Nodes whose taint is gone while the rest is still owed, by name with UID.
    owed: Mutex<HashMap<Arc<str>, Box<str>>>,
    /// Nodes whose taint may be gone: the answer to the write got lost. By name with UID.
    doubted: Mutex<HashMap<Arc<str>, Box<str>>>,
    /// Nodes that the provider said are not its own, with what was asked.
    not_managed: Mutex<HashMap<Arc<str>, u64>>,
}

impl Memory {
    fn forget(&self, node: &NodeView) {
        self.claims.lock().forget(&node.name);
        self.owed.lock().remove(&node.name);
        self.doubted.lock().remove(&node.name);
        self.not_managed.lock().remove(&node.name);
    }
}

/// The queue of nodes, filled by the store. Made before the store starts, so that no change is
/// missed, on a standby too.
#[derive(Clone, Debug)]
pub struct Intake {
    queue: Queue<Arc<str>>,
    memory: Arc<Memory>,
}

impl Intake {
    /// Subscribes to `nodes`: every node that needs something is queued whenever it changes (N-3).
    /// Queue name and back-off are upstream's (N-2).
    pub fn new(nodes: &mut Store<NodeView>, metrics: &QueueMetrics) -> Self {
        let queue = Queue::new("Nodes", Backoff::default(), metrics);
        let memory = Arc::new(Memory::default());
        let (keys, known) = (queue.clone(), Arc::clone(&memory));
        nodes.subscribe(move |change: &Change<'_, NodeView>, origin| match change {
            Change::Added(node) => {
                known.claims.lock().claim(&node.provider_id, &node.name);
                offer(&keys, node, origin);
            }
            Change::Updated(old, node) => {
                if old.provider_id != node.provider_id {
                    known.claims.lock().claim(&node.provider_id, &node.name);
                }
                offer(&keys, node, origin);
            }
            Change::Deleted(node) => known.forget(node),
        });
        Self { queue, memory }
    }
}

fn offer(queue: &Queue<Arc<str>>, node: &NodeView, origin: Origin) {
    if node.is_uninitialized() || !initialize::reconcile(node).is_empty() {
        let priority = match origin {
            Origin::Watch => Priority::Fresh,
            Origin::List => Priority::Bulk,
        };
        queue.add(Arc::clone(&node.name), priority);
    }
}

impl CloudNode {
    /// The loop over what `intake` has gathered.
    pub fn new(parts: Parts, intake: Intake) -> Self {
        let writers = Semaphore::new(parts.workers);
        Self {
            parts,
            queue: intake.queue,
            writers,
            memory: intake.memory,
        }
    }

    /// Works until `stop`, then lets the nodes in hand finish. Waits for the store (N-4) and, all
    /// the way, for a provider that serves instances (N-1).
    pub async fn run(self, stop: CancellationToken) {
        let ready = async {
            self.parts.nodes.synced().await;
            self.instances_served().await;
        };
        if stop.run_until_cancelled(ready).await.is_none() {
            return;
        }
        info!(nodes = self.parts.nodes.len(), "starting {NAME}");
        let this = Arc::new(self);
        let gate = Gate::new(this.parts.provider.state(), State::serves);
        let handler = {
            let this = Arc::clone(&this);
            move |name: Arc<str>| {
                let this = Arc::clone(&this);
                async move { this.sync(name).await }
            }
        };
        let work = this.queue.run(IN_HAND, gate, stop.clone(), handler);
        let watch = stop.run_until_cancelled(this.ask_again_after_restarts());
        tokio::join!(work, watch);
    }

    /// N-1. Waits, for the next process behind the socket may serve them.
    async fn instances_served(&self) {
        let mut sessions = self.parts.provider.sessions();
        let mut said = false;
        loop {
            let served = sessions
                .borrow_and_update()
                .as_ref()
                .map(|session| session.instances.is_some());
            match served {
                Some(true) => return,
                Some(false) if !said => {
                    warn!(
                        "failed to start cloud node controller: cloud provider does not support instances"
                    );
                    info!("Skipping {NAME:?}");
                    said = true;
                }
                _ => {}
            }
            if sessions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Another process behind the socket may know nodes that the last one did not.
    async fn ask_again_after_restarts(&self) {
        let mut sessions = self.parts.provider.sessions();
        let mut known: Option<Box<str>> = None;
        loop {
            let boot = sessions
                .borrow_and_update()
                .as_ref()
                .map(|session| session.boot_id.clone());
            if boot.is_some() && boot != known {
                if known.is_some() {
                    self.queue_uninitialized();
                }
                known = boot;
            }
            if sessions.changed().await.is_err() {
                return;
            }
        }
    }

    fn queue_uninitialized(&self) {
        for node in self.parts.nodes.all() {
            if node.is_uninitialized() {
                self.queue.add(Arc::clone(&node.name), Priority::Bulk);
            }
        }
    }
}

/// What the answer "not managed" depends on: as long as it is the same, it is not asked again.
fn question(node: &NodeView, boot_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&node.uid, &node.provider_id, &node.labels, boot_id).hash(&mut hasher);
    hasher.finish()
}
