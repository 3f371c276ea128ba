//! Comparison of load balancers with their Services (instead of Q-30), each once a period: a task of the loop.
//!
//! Those that got a call early in the term are compared once more, soon: a call of the leader before may reach the cloud
//! after that, since a provider ends a change that it has begun though its caller is gone.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, Stream, StreamExt, stream};
use outrigger_core::service::{ownership::Ownership, plan::Step};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::{decisions::Decisions, metrics::ServiceMetrics, states::ServiceKey};
use crate::queue::{Priority, Queue};
use outrigger_provider::Provider;

/// Comparisons in flight together.
const COMPARISONS: usize = 8;

/// After this time in a term, no call of the leader before is still at work in the cloud.
const LATE: Duration = Duration::from_mins(2);

/// Comparisons of load balancers with their Services.
pub(super) struct Drift {
    pub(super) decisions: Arc<Decisions>,
    pub(super) provider: Provider,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) metrics: ServiceMetrics,
    /// Period of the comparisons; `None` if there are none.
    pub(super) period: Option<Duration>,
}

impl Drift {
    /// Compares each Service once a period with its load balancer, one after the other so that no burst hits the
    /// cloud. Never returns.
    pub(super) async fn run(&self) {
        sleep(LATE).await;
        let states = &self.decisions.states;
        let called = self
            .decisions
            .keys(|service| states.with(&ServiceKey::of(service), |state| state.has_been_called));
        self.compare_all(stream::iter(called)).await;
        let Some(period) = self.period else {
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
            self.compare_all(due).await;
        }
    }

    async fn compare_all(&self, keys: impl Stream<Item = ServiceKey>) {
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
                let step = state.progress.next(self.decisions.now(), &service, facts);
                step == Step::Idle
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
            .decisions
            .live(key)
            .is_some_and(|now| Arc::ptr_eq(&now, &service));
        let drifted = is_same
            && self.decisions.decide(key, &service, &inputs, |state, _| {
                state.progress.observed(&service, &answer)
            });
        if drifted {
            self.metrics.drifted();
            info!(
                service = &*key.name,
                found = ?answer.disposition,
                differs = &*answer.message,
                "the load balancer is not what it was made; ensuring it again"
            );
            self.queue.add(key.clone(), Priority::Bulk);
        }
    }
}
