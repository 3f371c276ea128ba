//! The service-lb loop: makes load balancers for Services of type `LoadBalancer`, keeps their targets current, deletes
//! those that no Service wants any more (upstream's service-lb-controller, S-1 to S-72 of `docs/upstream.md`).
//!
//! ```text
//!  Service changed ─► Fresh ─┐                        ┌► decisions ─► core: Step, Consequence
//!  rollout ─────────► Update ├► queue ─(slot)─► reconciler ─► lease_targets ─► provider: one call
//!  checks, sessions ► Bulk ──┘                        └► one PATCH, events
//! ```
//!
//! The [`Reconciler`] looks, calls (`reconciler`, `cleanup`) and writes (`write`); nothing that it asks knows it.
//! `rollout`, `checks` and `sessions` are tasks that [`ServiceLb`] starts, and that do no more for a Service than queue it.
//!
//! Calls about one Service come one after the other, targets too (not Q-8): the queue hands out each key once at a time,
//! with the slot of its call: what the call carries is read when it may begin. State that outlives this process is on the
//! Service and, for the targets that all load balancers have, on the Lease.
//!
//! A reader follows one Service: `event_handlers` queue it, `reconciler` asks `decisions` for its step, `write` writes the
//! consequence.
//!
//! RBAC: `get`, `list`, `watch` on `services`; `patch` on `services/status`; `list`, `watch` on `nodes`; `create`, `patch`
//! on `events`.

mod checks;
mod cleanup;
mod decisions;
pub mod dry_run;
mod event_handlers;
mod lease_targets;
mod metrics;
mod reconciler;
mod rollout;
mod sessions;
mod states;
mod write;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use outrigger_core::{node::NodeView, service::ServiceView, targets::Pace};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tracing::{info, warn};

pub use self::{
    decisions::COMPONENT,
    event_handlers::{ServiceInputs, subscribe},
    metrics::ServiceMetrics,
};
use self::{
    decisions::Decisions,
    lease_targets::LeaseTargets,
    reconciler::Reconciler,
    rollout::Rollout,
    states::{ServiceKey, ServiceStates},
};
use crate::{
    context::{LoopContext, LoopParts, Term},
    control_loop::{self, ControlLoop, Task},
    queue::{Concurrency, Outcome, Priority, Queue},
};
use outrigger_kube::{services::ServiceWriter, store::Store, watch::Resync};
use outrigger_provider::{Provider, Slot};

/// Name of the loop in `--controllers` and of its health check.
pub const NAME: &str = "service-lb-controller";

/// Flags of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: Services that are ensured or deleted together.
    pub workers: usize,
    /// `--load-balancer-update-idle`, `--load-balancer-update-ceiling`: how changes of the nodes are gathered.
    pub pace: Pace,
    /// `--load-balancer-drift-period`: how often each load balancer is compared with its Service; none: never.
    pub drift_period: Option<Duration>,
}

/// The service-lb loop in one lease term.
pub struct ServiceLb {
    settings: ServiceSettings,
    nodes: Arc<Store<NodeView>>,
    provider: Provider,
    queue: Queue<ServiceKey>,
    doubts: watch::Receiver<Option<Resync>>,
    metrics: ServiceMetrics,
    lease: Arc<LeaseTargets>,
    decisions: Arc<Decisions>,
    rollout: Arc<Rollout>,
    reconciler: Reconciler,
}

impl ServiceLb {
    /// The loop over `services` and the changes of `inputs`, for one lease term. Its Lease says which targets all
    /// load balancers have; without a Lease, a restart sends them the targets again.
    pub fn new(
        context: LoopContext<ServiceKey>,
        services: Arc<Store<ServiceView>>,
        settings: ServiceSettings,
        inputs: &ServiceInputs,
        metrics: ServiceMetrics,
    ) -> Self {
        let LoopContext {
            parts:
                LoopParts {
                    api,
                    provider,
                    nodes,
                    events,
                    history,
                    doubts,
                },
            queue,
            term: Term { fence, lease, .. },
            repeats,
        } = context;
        let lease = Arc::new(LeaseTargets::new(lease));
        let decisions = Arc::new(Decisions {
            services: Arc::clone(&services),
            states: Arc::default(),
            targets: RwLock::default(),
            provider: provider.clone(),
            lease: Arc::clone(&lease),
            clock: inputs.clock,
            history,
        });
        let rollout = Arc::new(Rollout {
            decisions: Arc::clone(&decisions),
            lease: Arc::clone(&lease),
            queue: queue.clone(),
            metrics: metrics.clone(),
            nodes: Arc::clone(&nodes),
            node_changes: Arc::clone(&inputs.node_changes),
            selection: Mutex::default(),
            since: Mutex::default(),
        });
        let reconciler = Reconciler {
            decisions: Arc::clone(&decisions),
            rollout: Arc::clone(&rollout),
            provider: provider.clone(),
            fence,
            lease: Arc::clone(&lease),
            queue: queue.clone(),
            metrics: metrics.clone(),
            writer: ServiceWriter::new(api, services),
            events,
            repeats,
        };
        Self {
            settings,
            nodes,
            provider,
            queue,
            doubts,
            metrics,
            lease,
            decisions,
            rollout,
            reconciler,
        }
    }

    /// Calls about load balancers that can be in flight.
    fn places(&self) -> usize {
        let session = self.provider.session();
        let offered = session.as_ref().and_then(|s| s.load_balancers.as_ref());
        let workers = self.settings.workers;
        offered.map_or(workers, |offered| offered.max_in_flight.min(workers))
    }
}

impl ControlLoop for ServiceLb {
    type Key = ServiceKey;
    type State = ServiceStates;
    type Slot = Slot;

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<ServiceStates> {
        &self.decisions.states
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
            self.decisions.services.synced(),
            self.nodes.synced(),
            self.provider
                .offering(|session| session.load_balancers.is_some(), without),
        );
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.rollout.refresh();
        macro_rules! task {
            ($name:literal, $run:ident) => {{
                let this = Arc::clone(self);
                ($name, async move { this.$run().await }.boxed())
            }};
        }
        let rollout = Arc::clone(&self.rollout);
        let (this, session) = (Arc::clone(self), self.begin_session());
        let sessions = async move { this.follow_sessions(session).await };
        vec![
            ("targets", async move { rollout.run().await }.boxed()),
            ("sessions of the provider", sessions.boxed()),
            task!("doubts", follow_doubts),
            task!("drift", compare_all),
            task!("orphans", check_orphans),
            task!("states", count_states),
        ]
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency {
            all: self.settings.workers,
            // Half of the calls stay for those who wait for something.
            bulk: self.places().div_ceil(2),
        }
    }

    async fn reconcile(
        self: Arc<Self>,
        key: ServiceKey,
        priority: Priority,
        slot: Slot,
    ) -> Outcome {
        self.reconciler.sync(&key, priority, slot).await
    }
}

impl control_loop::KeySlot for Slot {
    fn wait(provider: Provider) -> BoxFuture<'static, Self> {
        async move { provider.load_balancers().slot().await }.boxed()
    }
}
