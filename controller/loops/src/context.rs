//! The parts that all loops share, besides the settings of each.

use std::sync::Arc;

use outrigger_core::{correlator::EventContent, node::NodeView};
use outrigger_kubernetes::{
    api::Api,
    events::{ObjectRef, Recorder},
    leader::Handle,
    store::Store,
};
use outrigger_provider_client::Provider;
use outrigger_runtime::{
    fence::Fence,
    queue::{self, Queue},
    telemetry::Repeats,
};

/// The clients and the store of a loop, the same in each lease term.
#[derive(Clone)]
pub struct LoopParts {
    /// Requests under the loop's account.
    pub api: Api,
    /// The cloud.
    pub provider: Provider,
    /// All Nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// Events of the loop's component.
    pub events: Recorder,
}

/// One lease term, as a loop sees it.
#[derive(Clone, Debug)]
pub struct Term {
    /// Asked before each write and each call to the provider.
    pub fence: Fence,
    /// The leader election's Lease; none without an election.
    pub lease: Option<Handle>,
}

/// [`LoopParts`] in one lease term: each request and each call asks the fence of the term.
#[derive(Clone)]
pub struct LoopContext<K: queue::Key> {
    /// Requests under the loop's account.
    pub api: Api,
    /// The cloud.
    pub provider: Provider,
    /// All Nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// Events of the loop's component.
    pub events: Recorder,
    /// Keys of the loop.
    pub queue: Queue<K>,
    /// The lease term.
    pub term: Term,
    /// Causes of failures, which may concern many objects alike: one log line for all.
    pub repeats: Arc<Repeats>,
}

impl<K: queue::Key> LoopContext<K> {
    /// The context of a loop over the keys of `queue` in the lease term `term`.
    pub fn new(parts: &LoopParts, queue: Queue<K>, term: &Term) -> Self {
        Self {
            api: parts.api.fenced(term.fence.clone()),
            provider: parts.provider.fenced(term.fence.clone()),
            nodes: Arc::clone(&parts.nodes),
            events: parts.events.clone(),
            queue,
            term: term.clone(),
            repeats: Arc::default(),
        }
    }

    /// Records an event about the Node, by its real UID (N-22, B-10).
    pub(crate) fn node_event(&self, node: &NodeView, event: EventContent) {
        let object = ObjectRef::node(Arc::clone(&node.name), &*node.uid);
        let EventContent {
            kind,
            reason,
            message,
        } = event;
        self.events.event(&object, kind, reason, message);
    }
}
