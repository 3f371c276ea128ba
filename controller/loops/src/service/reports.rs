//! Reports on the cloud and the cluster as a whole: load balancers that no Service wants, and Services by state. Tasks of the
//! loop.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use outrigger_api::v1::ListLoadBalancersRequest;
use outrigger_core::{
    condition::Status,
    service::{
        ServiceView,
        condition::{ACCEPTED, PROVISIONED},
        ownership::Ownership,
    },
};
use tokio::time::sleep;
use tracing::warn;

use super::{
    decisions::{Decisions, may_concern},
    metrics::ServiceMetrics,
    states::ServiceKey,
};
use outrigger_provider::Provider;

/// The first check for orphans comes no later than this after the start.
const FIRST_ORPHANS: Duration = Duration::from_mins(10);

/// Orphans that are named in the log.
const NAMED: usize = 20;

/// How often the gauges by state are brought up to date.
const STATES_SHOWN: Duration = Duration::from_secs(10);

/// Reports that no single Service leads to.
pub(super) struct Reports {
    pub(super) decisions: Arc<Decisions>,
    pub(super) provider: Provider,
    pub(super) metrics: ServiceMetrics,
    /// Period of the check for orphans; none: no check is made.
    pub(super) period: Option<Duration>,
}

impl Reports {
    /// Reports orphans where the provider lists load balancers; deletes nothing. Never returns.
    pub(super) async fn check_orphans(&self) {
        let Some(period) = self.period else {
            return std::future::pending().await;
        };
        let mut named: HashSet<String> = HashSet::new();
        sleep(period.min(FIRST_ORPHANS)).await;
        loop {
            self.report_orphans(&mut named).await;
            sleep(period).await;
        }
    }

    async fn report_orphans(&self, named: &mut HashSet<String>) {
        let session = self.provider.session();
        if !session.is_some_and(|session| session.declares::<ListLoadBalancersRequest>()) {
            return;
        }
        // A Service that is deleted while the list is made may be in it, as one that is new.
        let mut uids = self.uids();
        let listed = match self.provider.load_balancers().list().await {
            Ok(listed) => listed,
            Err(error) => {
                warn!(
                    class = error.class().as_str(),
                    %error,
                    "load balancers not listed; orphans are those of the last list"
                );
                return;
            }
        };
        uids.extend(self.uids());
        let orphans: Vec<_> = listed
            .into_iter()
            .filter(|balancer| {
                let owner = balancer.service.as_ref();
                owner.is_none_or(|owner| !uids.contains(&*owner.uid))
            })
            .collect();
        self.metrics.orphaned(orphans.len());
        named.retain(|id| orphans.iter().any(|orphan| *orphan.id == **id));
        for orphan in orphans.iter().take(NAMED) {
            if named.insert(orphan.id.to_string()) {
                let owner = orphan.service.as_ref();
                let service = owner.map(|owner| format!("{}/{}", owner.namespace, owner.name));
                warn!(
                    id = &*orphan.id,
                    name = &*orphan.name,
                    service = service.as_deref().unwrap_or("unknown"),
                    "the cloud has a load balancer of this cluster that no Service wants; it is \
                     not deleted by this controller"
                );
            }
        }
    }

    /// The UIDs of all Services, those about to go included.
    fn uids(&self) -> HashSet<Arc<str>> {
        let keys = self.decisions.keys(may_concern).into_iter();
        let orphaned = self.decisions.states.orphaned();
        keys.chain(orphaned).map(|key| key.uid).collect()
    }

    /// Keeps the gauge of Services by state. Never returns.
    pub(super) async fn count_states(&self) {
        loop {
            if let Some(capability) = self.decisions.capability() {
                let mut counts = HashMap::new();
                self.decisions.services.for_each(|service| {
                    let state = match Ownership::of(service, Some(&capability)) {
                        Ownership::Provide => state_of(
                            service,
                            self.decisions.states.is_waiting(&ServiceKey::of(service)),
                        ),
                        Ownership::Hold => "class_not_served",
                        Ownership::Cleanup
                        | Ownership::Undecided
                        | Ownership::WaitOver
                        | Ownership::Foreign
                        | Ownership::Unrelated => return,
                    };
                    *counts.entry(state).or_default() += 1;
                });
                self.metrics.count(&counts);
            }
            sleep(STATES_SHOWN).await;
        }
    }
}

/// The state of a Service by its conditions, as the metric names it.
fn state_of(service: &ServiceView, waits: bool) -> &'static str {
    let status = |kind| service.condition(kind).map(|condition| &*condition.status);
    let is_pending = service
        .condition(PROVISIONED)
        .is_none_or(|condition| &*condition.reason == "Pending");
    if service.is_paused() {
        "paused"
    } else if service.shed.is_some() {
        "too_large"
    } else if service.selection().is_err() {
        "invalid_annotation"
    } else if status(PROVISIONED) == Some(Status::True.as_str()) {
        "ready"
    } else if waits {
        "in_progress"
    } else if status(ACCEPTED) == Some(Status::False.as_str()) && is_pending {
        "not_managed"
    } else if is_pending {
        "in_progress"
    } else {
        "failed"
    }
}
