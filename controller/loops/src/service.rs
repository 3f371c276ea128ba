//! The service-lb loop: makes load balancers for Services of type `LoadBalancer`, keeps their
//! targets current, deletes those that no Service wants any more (upstream's service-lb-controller,
//! S-1 to S-72 of `docs/upstream.md`).
//!
//! ```text
//!  services ─► queue ─► core::plan::Progress::next ─► Step ─► provider ─► answer ─► Consequence ─► one PATCH
//!                ▲                     ▲                                              events
//!  nodes ─► Rollout: debounce, shrink guard ─► Targets
//!                ▲
//!  drift: every Service once a period; orphans: what the cloud has and the cluster does not
//! ```
//!
//! Calls about one Service come one after the other, targets too (not Q-8): the queue hands out each
//! key once at a time. A Service waits for its call in the queue: what the call carries is read when it may begin. State that outlives this process is on the Service and, for the targets that
//! all load balancers have, on the Lease.
//!
//! RBAC: `get`, `list`, `watch` on `services`; `patch` on `services/status`; `list`, `watch` on
//! `nodes`, `get` on `nodes` for those that a list did not show; `create`, `patch` on `events`.

mod absence;
mod act;
mod applied;
mod decision_inputs;
mod declarations;
mod drift;
mod event_handlers;
mod held;
mod key;
mod left_behind;
mod metrics;
mod node_changes;
pub mod plan;
mod rollout;
mod states;
mod sync;
mod update;
mod write;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use outrigger_core::{
    node::NodeView,
    service::{
        ServiceView,
        capability::Capability,
        ownership::{Ownership, is_not_managed},
        update_size::UpdateSize,
    },
    targets::{Allowance, Pace},
};
use parking_lot::Mutex;
use tracing::{info, warn};

pub use self::{
    applied::{TARGETS_ANNOTATION, stored_targets},
    event_handlers::{ServiceInputs, subscribe},
    metrics::ServiceMetrics,
};
use self::{
    declarations::Declarations, key::ServiceKey, node_changes::NodeChanges, rollout::Rollout,
    states::ServiceStates,
};
use crate::{
    context::Term,
    control_loop::{ControlLoop, Task},
};
use outrigger_kubernetes::{
    api::Api, events::Recorder, leader::Handle, services::ServiceWriter, store::Store,
};
use outrigger_provider_client::{Provider, Session, Slot};
use outrigger_runtime::{
    clock::Clock,
    fence::Fence,
    queue::{Outcome, Priority, Queue, Taken},
    telemetry::Repeats,
};

/// Name of the loop in `--controllers` and of its health check.
pub const NAME: &str = "service-lb-controller";

/// Component of its events, and who it is to the API server (S-4).
pub const COMPONENT: &str = "service-controller";

/// Load balancers that are ensured in the background at once.
const IN_BACKGROUND: usize = 2;

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct ServiceParts {
    /// Requests under the name [`COMPONENT`].
    pub api: Api,
    /// All Services.
    pub services: Arc<Store<ServiceView>>,
    /// All nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`COMPONENT`].
    pub events: Recorder,
    /// Flags of the loop.
    pub settings: ServiceSettings,
    /// Counts and times.
    pub metrics: ServiceMetrics,
}

/// Flags of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: Services that are ensured or deleted at once, beside background work.
    pub workers: usize,
    /// `--load-balancer-update-idle`, `--load-balancer-update-ceiling`: how changes of the nodes are gathered.
    pub pace: Pace,
    /// `--load-balancer-shrink-*`: how many targets may go in one step; a hold of zero holds nothing.
    pub allowance: Allowance,
    /// `--load-balancer-drift-period`: how often each load balancer is compared with its Service; none: never.
    pub drift_period: Option<Duration>,
}

/// The service-lb loop.
pub struct ServiceLb {
    parts: ServiceParts,
    fence: Fence,
    queue: Queue<ServiceKey>,
    states: Arc<ServiceStates>,
    clock: Clock,
    writer: ServiceWriter,
    update_size: Mutex<UpdateSize>,
    node_changes: Arc<NodeChanges>,
    rollout: Rollout,
    repeats: Repeats,
}

/// A process of the provider, and what it declares about load balancers.
#[derive(PartialEq)]
struct Declared {
    boot_id: Box<str>,
    capability: Option<Arc<Capability>>,
}

fn declared(session: Option<&Session>) -> Option<Declared> {
    session.map(|session| Declared {
        boot_id: session.boot_id.clone(),
        capability: session
            .load_balancers
            .as_ref()
            .map(|offered| Arc::clone(&offered.capability)),
    })
}

impl fmt::Debug for ServiceLb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceLb")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl ServiceLb {
    /// The loop over the keys and changes of `inputs`, for one lease term. Its Lease says which targets all
    /// load balancers have; without a Lease, a restart sends them the targets anew.
    pub fn new(mut parts: ServiceParts, inputs: &ServiceInputs, term: &Term) -> Self {
        let settings = parts.settings;
        let unbroken_since = term.lease.as_ref().map_or(0, Handle::unbroken_since);
        let fence = term.fence.clone();
        let api = parts.api.fenced(fence.clone());
        parts.provider = parts.provider.fenced(fence.clone());
        Self {
            writer: ServiceWriter::new(api, Arc::clone(&parts.services)),
            update_size: Mutex::default(),
            rollout: Rollout::new(term.lease.clone(), settings.allowance),
            fence,
            queue: inputs.keys.queue.clone(),
            states: Arc::new(ServiceStates::new(Declarations::new(unbroken_since))),
            clock: inputs.clock,
            node_changes: Arc::clone(&inputs.node_changes),
            repeats: Repeats::default(),
            parts,
        }
    }

    /// The provider's declarations; none while there is no connection, or it serves no load
    /// balancers.
    fn capability(&self) -> Option<Arc<Capability>> {
        let declared = event_handlers::capability(&self.parts.provider)?;
        Some(self.states.declarations.in_term(declared))
    }

    /// Requeues all Services when another process of the provider, or another declaration, appears: it may do what
    /// the last one refused, and serve other Services. Never returns.
    async fn watch_provider(&self, mut known: Option<Declared>) {
        let follow = |session: &Session| {
            let now = declared(Some(session));
            let is_other = known != now;
            if is_other {
                self.apply_declaration(known.as_ref(), now.as_ref());
            }
            if known.is_some() {
                // The nodes may have changed while there was no session.
                self.queue_without_targets();
            }
            if is_other {
                self.queue_all(Priority::Bulk);
            }
            known = now;
        };
        self.parts.provider.each_session(follow).await;
    }

    /// Applies the provider's declaration `now`, which replaces `before`. A new process of a volatile provider may
    /// have lost every load balancer, and a new one of any may manage those that the last one did not.
    fn apply_declaration(&self, before: Option<&Declared>, now: Option<&Declared>) {
        self.states.provider_changed();
        let is_new = before.map(|before| &before.boot_id) != now.map(|now| &now.boot_id);
        let capability = now.and_then(|now| now.capability.as_ref());
        let Some(capability) = capability.filter(|_| is_new) else {
            return;
        };
        if capability.volatile {
            let services = self.provided(capability);
            info!(
                services = services.len(),
                "the provider keeps load balancers in its own process, and the process may be a new \
                 one; ensuring all of them"
            );
            for key in services {
                self.states.with(&key, |state| state.progress.state_lost());
            }
        }
        let mut not_managed = Vec::new();
        self.parts.services.for_each(|service| {
            let ownership = Ownership::of(service, Some(capability));
            if ownership == Ownership::Provide && is_not_managed(service) {
                not_managed.push(ServiceKey::of(service));
            }
        });
        for key in not_managed {
            self.states
                .with(&key, |state| state.progress.ask_whether_managed());
        }
    }

    /// Queues every Service that a provider may serve.
    fn queue_all(&self, priority: Priority) {
        for service in self.parts.services.all() {
            if event_handlers::may_concern(&service) {
                self.queue.add(ServiceKey::of(&service), priority);
            }
        }
        for key in self.states.left_behind() {
            self.queue.add(key, priority);
        }
    }
}

impl ControlLoop for ServiceLb {
    type Key = ServiceKey;
    type State = ServiceStates;

    const NAME: &'static str = NAME;

    /// Each decides, and writes to its Service at most.
    const HANDLERS: usize = 32;

    fn state(&self) -> &Arc<ServiceStates> {
        &self.states
    }

    /// Both stores (S-5), and all the way a provider that serves load balancers (S-1).
    async fn ready(&self) {
        let without = || {
            warn!(
                "Failed to start service controller: the cloud provider does not support external \
                 load balancers"
            );
            info!("Skipping {NAME:?}");
        };
        // Not one after the other: without such a provider the store of Services is not filled.
        tokio::join!(
            self.parts.services.synced(),
            self.parts.nodes.synced(),
            self.parts.provider.load_balancers().serving(without),
        );
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.refresh_targets();
        self.publish_targets();
        let known = declared(self.parts.provider.session().as_deref());
        self.apply_declaration(None, known.as_ref());
        self.queue_all(Priority::Bulk);
        let this = Arc::clone(self);
        let sessions = async move { this.watch_provider(known).await }.boxed();
        macro_rules! task {
            ($name:literal, $run:ident) => {{
                let this = Arc::clone(self);
                ($name, async move { this.$run().await }.boxed())
            }};
        }
        vec![
            task!("targets", run_rollout),
            task!("confirmation of deleted Nodes", confirm_deletions),
            ("sessions of the provider", sessions),
            task!("drift", check_drift),
            task!("orphans", check_orphans),
            task!("states", count_states),
            task!("absence of the provider", mark_waiting_services),
        ]
    }

    async fn reconcile(self: Arc<Self>, key: ServiceKey, priority: Priority) -> Outcome {
        self.sync(&key, priority, None).await
    }

    fn has_room(&self, priority: Priority, in_flight: impl Fn(Priority) -> usize) -> bool {
        match priority {
            Priority::Background => {
                in_flight(Priority::Background) + self.states.turns() < IN_BACKGROUND
            }
            Priority::Batch => true,
            _ => {
                let calls = [Priority::FreshCall, Priority::BulkCall];
                let in_flight: usize = calls.into_iter().map(in_flight).sum();
                in_flight < self.parts.settings.workers
            }
        }
    }

    fn slot(&self, priority: Priority) -> BoxFuture<'static, Slot> {
        let provider = self.parts.provider.clone();
        async move {
            provider
                .load_balancers()
                .slot(priority == Priority::Background)
                .await
        }
        .boxed()
    }

    fn batch_size(&self, slot: &Slot) -> usize {
        let in_time = self.update_size.lock().services(slot.max_in_flight());
        in_time.min(slot.services_per_update())
    }

    async fn call(self: Arc<Self>, key: ServiceKey, priority: Priority, slot: Slot) -> Outcome {
        match self.sync(&key, priority, Some(slot)).await {
            // It has its turn already.
            Outcome::RetryAfter(delay) if self.states.has_turn(&key) => {
                self.queue.add_after(key, Priority::BulkCall, delay);
                Outcome::Done
            }
            outcome => outcome,
        }
    }

    async fn call_batch(self: Arc<Self>, keys: Vec<Taken<ServiceKey>>, slot: Slot) {
        self.update_all(keys, slot).await;
    }
}
