//! The parts that all loops share, besides the settings of each.
//!
//! The binary makes one [`LoopParts`] for each loop, since each has its own account at the API server, and one [`Term`] for
//! each lease term. [`LoopContext::new`] puts the two together: its clients ask the fence of the term before each request
//! and call, so that a loop cannot forget to.

use std::{ops::Deref, sync::Arc};

use outrigger_core::{event::EventContent, node::NodeView};
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use crate::queue::{self, Queue};
use outrigger_kube::{
    api::Api,
    events::{ObjectRef, Recorder},
    leader::Handle,
    store::Store,
    watch::Resync,
};
use outrigger_provider::Provider;
use outrigger_runtime::{fence::Fence, history::History, telemetry::Repeats};

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
    /// The last decisions about each object.
    pub history: History,
    /// When nothing that was known before is to be believed; a term begins with the last doubt, if there was any.
    pub doubts: watch::Receiver<Option<Resync>>,
}

impl LoopParts {
    /// Records an event about the Node, by its real UID (N-22, B-10).
    pub(crate) fn node_event(&self, node: &NodeView, event: EventContent) {
        let object = ObjectRef::node(Arc::clone(&node.name), &*node.uid);
        self.events.event(object, event);
    }
}

/// One lease term, as a loop sees it.
#[derive(Clone)]
pub struct Term {
    /// Asked before each write and each call to the provider.
    pub fence: Fence,
    /// The leader election's Lease; none without an election.
    pub lease: Option<Handle>,
    /// From then on no write of an earlier leader is on its way to the API server.
    pub quiet_at: Instant,
}

/// [`LoopParts`] in one lease term: each request and each call asks the fence of the term.
#[derive(Clone)]
pub struct LoopContext<K: queue::Key> {
    /// The parts that all loops share; this dereferences to them.
    pub parts: LoopParts,
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
        let parts = LoopParts {
            api: parts.api.fenced(term.fence.clone()),
            provider: parts.provider.fenced(term.fence.clone()),
            ..parts.clone()
        };
        Self {
            parts,
            queue,
            term: term.clone(),
            repeats: Arc::default(),
        }
    }

    /// Waits for the store (N-4, not Q-20), and all the way for a provider that serves instances (N-1, L-1). Logs once
    /// that it serves none to the loop `controller`, upstream's name of which is `name`.
    pub(crate) async fn instances_served(&self, controller: &str, name: &str) {
        self.nodes.synced().await;
        let without = || {
            let error = "cloud provider does not support instances";
            warn!(controller, error, "failed to start {name}; skipping it");
        };
        self.provider
            .offering(|session| session.instances.is_some(), without)
            .await;
    }
}

impl<K: queue::Key> Deref for LoopContext<K> {
    type Target = LoopParts;

    fn deref(&self) -> &LoopParts {
        &self.parts
    }
}

/// Logs that the API server did not take a write to an object, the same cause once for many objects, unless another
/// process leads: that one writes. The value is when it is tried again.
macro_rules! not_written {
    ($context:expr, $kind:ident = $object:expr, $write:expr, $error:expr) => {{
        let error: &::outrigger_kube::error::ApiError = $error;
        if !matches!(error, ::outrigger_kube::error::ApiError::Fenced) {
            ::outrigger_runtime::log_repeated!(
                warn, $context.repeats, &error.cause(),
                $kind = $object, class = error.class().as_str(), write = $write, %error, "object not written"
            );
        }
        $crate::queue::Outcome::from(error.requeue())
    }};
}
pub(crate) use not_written;
