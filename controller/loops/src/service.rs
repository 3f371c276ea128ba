//! The service-lb loop: makes load balancers for Services of type `LoadBalancer`, keeps their
//! targets current, deletes those that no Service wants any more (upstream's service-lb-controller,
//! S-1 to S-72 of `docs/upstream.md`).
//!
//! ```text
//!  services ─► queue ─► core::plan::Progress::next ─► Step ─► provider ─► answer ─► Consequence ─► one PATCH
//!                ▲                     ▲                                              events
//!  nodes ─► Rollout: debounce ─► targets of each Service
//!                ▲
//!  drift: every Service once a period; orphans: what the cloud has and the cluster does not
//! ```
//!
//! Calls about one Service come one after the other, targets too (not Q-8): the queue hands out each
//! key once at a time. A Service waits for its call in the queue: what the call carries is read when it may begin. State that outlives this process is on the Service and, for the targets that
//! all load balancers have, on the Lease.
//!
//! RBAC: `get`, `list`, `watch` on `services`; `patch` on `services/status`; `list`, `watch` on
//! `nodes`; `create`, `patch` on `events`.

mod cleanup;
mod current_targets;
mod drift;
pub mod dry_run;
mod event_handlers;
mod lease_targets;
mod metrics;
mod reconciler;
mod reports;
mod rollout;
mod sessions;
mod states;
mod term;
mod write;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use outrigger_core::{node::NodeView, service::ServiceView, targets::Pace};
use tracing::{info, warn};

use self::{
    cleanup::Cleanup,
    current_targets::CurrentTargets,
    drift::Drift,
    lease_targets::LeaseTargets,
    reconciler::Reconciler,
    reports::Reports,
    rollout::Rollout,
    sessions::Sessions,
    states::{ServiceKey, ServiceStates},
    term::ServiceTerm,
    write::Writes,
};
pub use self::{
    event_handlers::{ServiceInputs, subscribe},
    lease_targets::TARGETS_ANNOTATION,
    metrics::ServiceMetrics,
};
use crate::{
    context::{LoopContext, LoopParts, Term},
    control_loop::{ControlLoop, Task},
};
use outrigger_kubernetes::{services::ServiceWriter, store::Store};
use outrigger_provider_client::Slot;
use outrigger_runtime::queue::{Outcome, Priority};

/// Name of the loop in `--controllers` and of its health check.
pub const NAME: &str = "service-lb-controller";

/// Component of its events, and who it is to the API server (S-4).
pub const COMPONENT: &str = "service-controller";

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
    /// `--concurrent-service-syncs`.
    workers: usize,
    nodes: Arc<Store<NodeView>>,
    term: Arc<ServiceTerm>,
    reconciler: Reconciler,
    rollout: Arc<Rollout>,
    sessions: Sessions,
    drift: Drift,
    reports: Reports,
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
        let term = Arc::new(ServiceTerm {
            queue,
            provider,
            fence,
            metrics,
            services: Arc::clone(&services),
            states: Arc::default(),
            targets: CurrentTargets::default(),
            record: LeaseTargets::new(lease),
            clock: inputs.clock,
            history,
        });
        let writes = Arc::new(Writes {
            term: Arc::clone(&term),
            writer: ServiceWriter::new(api, services),
            events,
            repeats,
        });
        let rollout = Arc::new(Rollout::new(
            Arc::clone(&term),
            Arc::clone(&nodes),
            Arc::clone(&inputs.node_changes),
        ));
        Self {
            workers: settings.workers,
            nodes,
            reconciler: Reconciler {
                term: Arc::clone(&term),
                writes: Arc::clone(&writes),
                rollout: Arc::clone(&rollout),
                cleanup: Cleanup {
                    term: Arc::clone(&term),
                    writes,
                },
            },
            sessions: Sessions {
                term: Arc::clone(&term),
                rollout: Arc::clone(&rollout),
                doubts,
            },
            drift: Drift {
                term: Arc::clone(&term),
                period: settings.drift_period,
            },
            reports: Reports {
                term: Arc::clone(&term),
                period: settings.drift_period,
            },
            rollout,
            term,
        }
    }
}

impl ServiceLb {
    /// Calls about load balancers that can be in flight.
    fn places(&self) -> usize {
        let session = self.term.provider.session();
        let offered = session.as_ref().and_then(|s| s.load_balancers.as_ref());
        offered.map_or(self.workers, |offered| {
            offered.max_in_flight.min(self.workers)
        })
    }
}

impl ControlLoop for ServiceLb {
    type Key = ServiceKey;
    type State = ServiceStates;

    const NAME: &'static str = NAME;

    /// Each decides, and writes to its Service at most.
    const HANDLERS: usize = 32;

    fn state(&self) -> &Arc<ServiceStates> {
        &self.term.states
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
            self.term.services.synced(),
            self.nodes.synced(),
            self.term
                .provider
                .load_balancers()
                .wait_until_serving(without),
        );
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.rollout.refresh();
        let session = self.sessions.begin();
        let this = Arc::clone(self);
        let sessions = async move { this.sessions.run(session).await }.boxed();
        macro_rules! task {
            ($name:literal, $part:ident.$run:ident) => {{
                let this = Arc::clone(self);
                ($name, async move { this.$part.$run().await }.boxed())
            }};
        }
        vec![
            task!("targets", rollout.run),
            ("sessions of the provider", sessions),
            task!("doubts", sessions.follow_doubts),
            task!("drift", drift.run),
            task!("orphans", reports.check_orphans),
            task!("states", reports.count_states),
        ]
    }

    async fn reconcile(
        self: Arc<Self>,
        key: ServiceKey,
        priority: Priority,
        slot: Option<Slot>,
    ) -> Outcome {
        self.reconciler.sync(&key, priority, slot).await
    }

    fn has_room(&self, priority: Priority, in_flight: impl Fn(Priority) -> usize) -> bool {
        let (fresh, bulk) = (
            in_flight(Priority::FreshCall),
            in_flight(Priority::BulkCall),
        );
        match priority {
            Priority::Update => true,
            // Half of the places stay for those who wait for something.
            Priority::BulkCall if bulk >= self.places().div_ceil(2) => false,
            _ => fresh + bulk < self.workers,
        }
    }

    fn slot(&self) -> BoxFuture<'static, Slot> {
        let provider = self.term.provider.clone();
        async move { provider.load_balancers().slot().await }.boxed()
    }
}
