//! Periodic checks: the comparison of each load balancer with its Service (instead of Q-30), the load balancers that no
//! Service wants, and the Services by state. Tasks of the loop, which queue, report and count, and change nothing
//! themselves.
//!
//! Load balancers that got a call early in the term are compared once more, soon: a call of the leader before may reach the
//! cloud after that, since a provider ends a change that it has begun though its caller is gone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, stream};
use outrigger_api::v1::ListLoadBalancersRequest;
use outrigger_core::{
    condition::Status,
    service::{
        ServiceView,
        condition::{ACCEPTED, PROVISIONED},
        ownership::Ownership,
        plan::{HoldReason, Step},
    },
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    ServiceLb,
    decisions::may_concern,
    states::{ServiceKey, ServiceState},
};
use crate::queue::Priority;

/// Comparisons in flight together.
const COMPARISONS: usize = 8;

/// After this time in a term, no call of the leader before is still at work in the cloud.
const LATE: Duration = Duration::from_mins(2);

/// The first check for orphans comes no later than this after the start.
const FIRST_ORPHANS: Duration = Duration::from_mins(10);

/// Orphans that are named in the log.
const NAMED: usize = 20;

/// How often the gauges by state are brought up to date.
const STATES_SHOWN: Duration = Duration::from_secs(10);

impl ServiceLb {
    /// Compares load balancers with their Services. Never returns.
    pub(super) async fn compare_all(&self) {
        tokio::join!(self.compare_early(), self.compare_periodically());
    }

    /// Compares once those that got a call early in the term.
    async fn compare_early(&self) {
        sleep(LATE).await;
        let states = &self.decisions.states;
        let called = self
            .decisions
            .keys(|service| states.with(&ServiceKey::of(service), |state| state.has_been_called));
        self.compare_each(stream::iter(called)).await;
    }

    /// Compares each Service once a period with its load balancer, one after the other so that no burst hits the
    /// cloud. Never returns.
    async fn compare_periodically(&self) {
        let Some(period) = self.settings.drift_period else {
            return std::future::pending().await;
        };
        loop {
            let capability = self.decisions.capability();
            let mut round = capability.map_or_else(Vec::new, |capability| {
                self.decisions
                    .keys(|service| Ownership::of(service, Some(&capability)) == Ownership::Provide)
            });
            fastrand::shuffle(&mut round);
            let pause = period / u32::try_from(round.len().max(1)).unwrap_or(u32::MAX);
            if round.is_empty() {
                sleep(pause).await;
            }
            let due = stream::iter(round).then(|key| async move {
                sleep(pause).await;
                key
            });
            self.compare_each(due).await;
        }
    }

    async fn compare_each(&self, keys: impl Stream<Item = ServiceKey>) {
        keys.for_each_concurrent(COMPARISONS, |key| async move { self.compare(&key).await })
            .await;
    }

    /// Compares a settled Service with its load balancer, and queues it if that has drifted. Ends when the key
    /// is taken: calls about one Service do not overlap, and no change waits for a comparison.
    async fn compare(&self, key: &ServiceKey) {
        let (Some(service), Some(inputs)) = (self.decisions.live(key), self.decisions.inputs())
        else {
            return;
        };
        let is_settled = self
            .decisions
            .decide(key, &service, &inputs, |state, facts| {
                state.progress.next(&service, facts) == Step::Idle
            });
        if !is_settled || Ownership::of(&service, Some(&inputs.capability)) != Ownership::Provide {
            return;
        }
        let taken = CancellationToken::new();
        self.decisions.states.with(key, |state| {
            state.comparison = Some(taken.clone().drop_guard());
        });
        let targets = inputs.pool.targets_of(&service);
        let call = self
            .provider
            .load_balancers()
            .get(&service, &targets)
            .boxed();
        let Some(answer) = taken.run_until_cancelled(call).await else {
            return;
        };
        self.decisions
            .states
            .with(key, |state| state.comparison = None);
        let Ok(answer) = answer else {
            // The next round asks again.
            return;
        };
        // It may have changed meanwhile, and then the answer is about what it was.
        let is_same = self
            .decisions
            .live(key)
            .is_some_and(|now| Arc::ptr_eq(&now, &service));
        let drifted = is_same
            && self
                .decisions
                .decide(key, &service, &inputs, |state, facts| {
                    let progress = &mut state.progress;
                    progress.observed(&service, facts.capability, &answer)
                });
        if drifted {
            self.metrics.drifts.inc();
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
        let Some(period) = self.settings.drift_period else {
            return std::future::pending().await;
        };
        let mut last = Vec::new();
        sleep(period.min(FIRST_ORPHANS)).await;
        loop {
            self.report_orphans(&mut last).await;
            sleep(period).await;
        }
    }

    async fn report_orphans(&self, last: &mut Vec<String>) {
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
        let orphans = listed.into_iter().filter(|balancer| {
            let owner = balancer.service.as_ref();
            owner.is_none_or(|owner| !uids.contains(&*owner.uid))
        });
        let mut orphans: Vec<_> = orphans
            .map(|orphan| match orphan.service {
                Some(owner) => format!("{} of {}/{}", orphan.id, owner.namespace, owner.name),
                None => orphan.id.to_string(),
            })
            .collect();
        orphans.sort_unstable();
        self.metrics.orphans.set(orphans.len() as i64);
        if !orphans.is_empty() && *last != orphans {
            let named = orphans.iter().take(NAMED).map(String::as_str);
            warn!(
                count = orphans.len(),
                load_balancers = named.collect::<Vec<_>>().join(", "),
                "the cloud has load balancers of this cluster that no Service wants; they are not deleted by \
                 this controller"
            );
        }
        *last = orphans;
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
                let states = &self.decisions.states;
                self.decisions.services.for_each(|service| {
                    let ownership = Ownership::of(service, Some(&capability));
                    if matches!(ownership, Ownership::Provide | Ownership::Hold) {
                        let is_waiting = |state: &mut ServiceState| state.progress.is_waiting();
                        let waits = states.with(&ServiceKey::of(service), is_waiting);
                        let state = state_of(service, ownership, waits);
                        *counts.entry(state).or_default() += 1;
                    }
                });
                self.metrics.count(&counts);
            }
            sleep(STATES_SHOWN).await;
        }
    }
}

/// The state of a Service by its conditions, as the metric names it.
fn state_of(service: &ServiceView, ownership: Ownership, waits: bool) -> &'static str {
    let status = |kind| service.condition(kind).map(|condition| &*condition.status);
    let is_pending = service
        .condition(PROVISIONED)
        .is_none_or(|condition| &*condition.reason == "Pending");
    if let Some(why) = HoldReason::of(service, ownership) {
        why.as_str()
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
