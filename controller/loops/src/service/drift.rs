//! Periodic checks of the cloud against the cluster (instead of Q-30): drift of each load balancer once a period,
//! orphans, and the gauge of Services by state.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream};
use outrigger_api::v1::ListLoadBalancersRequest;
use outrigger_core::{
    condition::Status,
    service::{
        ServiceView,
        capability::Capability,
        condition::{ACCEPTED, PROVISIONED},
        ownership::Ownership,
        plan::Step,
    },
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{ServiceLb, event_handlers, key::ServiceKey};
use outrigger_runtime::queue::Priority;

/// The first check for orphans comes no later than this after the start.
const FIRST_ORPHANS: Duration = Duration::from_mins(10);

/// Comparisons in flight at once.
const COMPARISONS: usize = 8;

/// Orphans that are named in the log.
const NAMED: usize = 20;

/// How often the gauges by state are brought up to date.
const STATES_SHOWN: Duration = Duration::from_secs(10);

impl ServiceLb {
    /// Compares each Service once a period with its load balancer, one after the other so that no burst hits the
    /// cloud. Never returns.
    pub(super) async fn check_drift(&self) {
        let Some(period) = self.parts.settings.drift_period else {
            return std::future::pending().await;
        };
        loop {
            let capability = self.capability();
            let provided = |capability: Arc<Capability>| self.provided(&capability);
            let mut round = capability.map_or_else(Vec::new, provided);
            fastrand::shuffle(&mut round);
            let pause = period / u32::try_from(round.len().max(1)).unwrap_or(u32::MAX);
            if round.is_empty() {
                sleep(pause).await;
            }
            let due = stream::iter(round).then(|key| async move {
                sleep(pause).await;
                key
            });
            due.for_each_concurrent(COMPARISONS, |key| async move { self.compare(&key).await })
                .await;
        }
    }

    /// The Services that have a load balancer of a provider with this capability.
    pub(super) fn provided(&self, capability: &Capability) -> Vec<ServiceKey> {
        let mut keys = Vec::new();
        self.parts.services.for_each(|service| {
            if Ownership::of(service, Some(capability)) == Ownership::Provide {
                keys.push(ServiceKey::of(service));
            }
        });
        keys
    }

    /// Compares a settled Service with its load balancer, and queues it if that has drifted. Ends when the key
    /// is taken: calls about one Service do not overlap, and no change waits for a comparison.
    async fn compare(&self, key: &ServiceKey) {
        let (Some(service), Some(inputs)) = (self.live(key), self.inputs()) else {
            return;
        };
        let is_settled = self.decide(key, &service, &inputs, |progress, now, facts| {
            progress.next(now, &service, facts) == Step::Idle
        });
        if !is_settled || Ownership::of(&service, Some(&inputs.capability)) != Ownership::Provide {
            return;
        }
        let taken = CancellationToken::new();
        self.states.with(key, |state| {
            state.comparison = Some(taken.clone().drop_guard());
        });
        let provider = &self.parts.provider;
        let call = provider
            .load_balancers()
            .get(&service, &inputs.targets)
            .boxed();
        let Some(answer) = taken.run_until_cancelled(call).await else {
            return;
        };
        self.states.with(key, |state| state.comparison = None);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // The next round asks again.
                debug!(
                    service = &*key.name,
                    class = error.class().as_str(),
                    %error,
                    "load balancer not compared with its Service"
                );
                return;
            }
        };
        // It may have changed meanwhile, and then the answer is about what it was.
        let is_same = self
            .live(key)
            .is_some_and(|now| Arc::ptr_eq(&now, &service));
        let drifted = is_same
            && self.decide(key, &service, &inputs, |progress, _, _| {
                progress.observed(&service, &answer)
            });
        if drifted {
            self.parts.metrics.drifted();
            info!(
                service = &*key.name,
                found = ?answer.disposition,
                differs = &*answer.message,
                "the load balancer is not what it was made; ensuring it again"
            );
            self.queue.add(key.clone(), Priority::Bulk);
        }
    }

    /// Reports orphans where the provider lists load balancers; deletes nothing. Never returns.
    pub(super) async fn check_orphans(&self) {
        let Some(period) = self.parts.settings.drift_period else {
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
        let session = self.parts.provider.session();
        if !session.is_some_and(|session| session.declares::<ListLoadBalancersRequest>()) {
            return;
        }
        // A Service that is deleted while the list is made may be in it, as one that is new.
        let mut known = self.uids();
        let listed = match self.parts.provider.load_balancers().list().await {
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
        known.extend(self.uids());
        let orphans: Vec<_> = listed
            .into_iter()
            .filter(|found| {
                let owner = found.service.as_ref();
                owner.is_none_or(|owner| !known.contains(&owner.uid))
            })
            .collect();
        self.parts.metrics.orphaned(orphans.len());
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

    /// Of all Services, wanted or about to go.
    fn uids(&self) -> HashSet<Box<str>> {
        let mut uids = HashSet::new();
        self.parts.services.for_each(|service| {
            if event_handlers::may_concern(service) {
                uids.insert(service.uid.clone());
            }
        });
        let gone = self.states.left_behind();
        uids.extend(gone.into_iter().map(|key| Box::from(&*key.uid)));
        uids
    }

    /// Keeps the gauge of Services by state. Never returns.
    pub(super) async fn count_states(&self) {
        loop {
            if let Some(capability) = self.capability() {
                let mut counts = HashMap::new();
                self.parts.services.for_each(|service| {
                    let state = match Ownership::of(service, Some(&capability)) {
                        Ownership::Provide => {
                            state_of(service, self.states.is_waiting(&ServiceKey::of(service)))
                        }
                        Ownership::Hold => "class_not_served",
                        Ownership::Cleanup
                        | Ownership::Undecided
                        | Ownership::WaitOver
                        | Ownership::Foreign
                        | Ownership::Unrelated => return,
                    };
                    *counts.entry(state).or_default() += 1;
                });
                self.parts.metrics.count(&counts);
            }
            sleep(STATES_SHOWN).await;
        }
    }
}

/// The state of a Service by its conditions, as the metric names it.
fn state_of(service: &ServiceView, waits: bool) -> &'static str {
    let status = |kind| service.condition(kind).map(|found| &*found.status);
    let is_pending = service
        .condition(PROVISIONED)
        .is_none_or(|found| &*found.reason == "Pending");
    if service.is_paused() {
        "paused"
    } else if service.shed.is_some() {
        "too_large"
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
