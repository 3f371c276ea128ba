//! Batched update: new targets for the load balancers of Services that the rollout queued together.

use std::{borrow::Cow, sync::Arc};

use futures::future::join_all;
use outrigger_core::{
    service::{
        ServiceView,
        answer::LoadBalancerAnswer,
        plan::{BalancerCall, Mode, Step},
    },
    targets::{Revision, Targets},
};
use tokio::{sync::oneshot, time::Instant};
use tracing::debug;

use super::{Reconciler, call_result};
use crate::service::{states::ServiceKey, term::DecisionInputs};
pub(super) use outrigger_core::service::update_size::UpdateSize;
use outrigger_provider_client::{self as provider, BatchAnswer, Slot, TargetsUpdate};
use outrigger_runtime::queue::{Outcome, Priority, Taken};

/// A Service whose load balancer gets other targets.
struct Update {
    taken: Taken<ServiceKey>,
    service: Arc<ServiceView>,
    /// The outcome of its success.
    then: Outcome,
}

impl Reconciler {
    /// Updates the load balancers of these Services to the current targets, in one call. A Service that needs another
    /// step by now is requeued, and so is one that has other targets than the first.
    pub(in crate::service) async fn update_all(&self, keys: Vec<Taken<ServiceKey>>, slot: Slot) {
        let Some(inputs) = self.term.inputs() else {
            return finish_all(keys, Outcome::Retry);
        };
        let mut updates = Vec::new();
        let mut first: Option<(Revision, Arc<Targets>)> = None;
        for taken in keys {
            let key = taken.key();
            let Some(service) = self.term.live(key) else {
                taken.finish(Outcome::RunAgain(Priority::Fresh));
                continue;
            };
            let revision = inputs.pool.revision_of(&service);
            if first.as_ref().is_some_and(|(first, _)| *first != revision) {
                taken.finish(Outcome::RunAgain(Priority::Batch));
                continue;
            }
            self.term.states.with(key, |state| state.comparison = None);
            let step = self.term.next(key, &service, &inputs);
            if step.mode() != Mode::Batch {
                taken.finish(Outcome::RunAgain(Priority::Fresh));
                continue;
            }
            first.get_or_insert_with(|| (revision, inputs.pool.targets_of(&service)));
            updates.push(Update {
                taken,
                service,
                then: match step {
                    Step::Update => Outcome::Done,
                    _ => Outcome::RunAgain(Priority::Background),
                },
            });
        }
        let Some((_, targets)) = first else {
            return;
        };
        let Some(_update) = self.begin_update(inputs.pool.revision()).await else {
            return finish_all(updates.into_iter().map(|one| one.taken), Outcome::Retry);
        };
        let began = Instant::now();
        let (calls, ends): (Vec<_>, Vec<_>) = updates
            .into_iter()
            .map(|update| {
                let is_current = self.term.is_current(&update.service, &inputs);
                let service = Arc::clone(&update.service);
                let (call, answered) = TargetsUpdate::new(service, is_current);
                (
                    call,
                    self.finish_update(update, answered, began, &inputs, &targets),
                )
            })
            .unzip();
        let call = async {
            let provider = &self.term.provider;
            let update = provider.load_balancers().update(slot, calls, &targets);
            let (unsent, results) = update.await;
            if let Some(results) = results {
                self.update_size.lock().ended(results);
            }
            for update in unsent {
                update.fail(provider::Error::Outdated {
                    rpc: "UpdateLoadBalancerNodes",
                });
            }
        };
        tokio::join!(call, join_all(ends));
    }

    async fn finish_update(
        &self,
        update: Update,
        answered: oneshot::Receiver<BatchAnswer<LoadBalancerAnswer>>,
        began: Instant,
        inputs: &DecisionInputs,
        targets: &Targets,
    ) {
        let key = update.taken.key();
        let Ok(BatchAnswer { result: called, .. }) = answered.await else {
            debug!(
                service = &*key.name,
                "no result of the update; asking again"
            );
            self.term.states.with(key, |state| {
                state.progress.update_unanswered(&update.service);
            });
            return update.taken.finish(Outcome::Retry);
        };
        if matches!(called, Err(provider::Error::Outdated { .. })) {
            return update.taken.finish(Outcome::RunAgain(Priority::Batch));
        }
        let Some(result) = self.writes.record_call(key, "update", called) else {
            return update.taken.finish(Outcome::Retry);
        };
        self.term
            .metrics
            .updated(began.elapsed(), call_result(&result));
        let call = BalancerCall::Update(Cow::Borrowed(targets));
        let ended = self.writes.apply(key, inputs, &call, &result).await;
        self.requeue_if_outdated(&update.service, targets.revision(), inputs.publications);
        let outcome = match ended {
            Some(Outcome::Done) => update.then,
            // The store's deletion event ends the queue entry.
            None => Outcome::Done,
            Some(outcome) => outcome,
        };
        update.taken.finish(outcome);
    }
}

fn finish_all(keys: impl IntoIterator<Item = Taken<ServiceKey>>, outcome: Outcome) {
    for taken in keys {
        taken.finish(outcome);
    }
}
