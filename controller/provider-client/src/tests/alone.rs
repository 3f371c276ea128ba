//! Calls about load balancers as a loop makes them, without a queue: each waits for its slot by itself.

use std::{collections::VecDeque, sync::Arc};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use outrigger_core::{
    service::{ServiceView, answer::LoadBalancerAnswer},
    targets::Targets,
};
use tokio::sync::oneshot;

use crate::{BatchAnswer, EnsureInput, Error, Provider, Slot, TargetsUpdate, admission::Urgency};

type Answered = Result<LoadBalancerAnswer, Error>;

/// An update of targets, and where its result comes.
pub(super) type Asked = (
    TargetsUpdate,
    oneshot::Receiver<BatchAnswer<LoadBalancerAnswer>>,
);

impl Provider {
    /// Returns a slot like [`Provider::slot`], but fails without a provider.
    async fn slot_now(&self, rpc: &'static str) -> Result<Slot, Error> {
        let admitted = self.shared.admit(Urgency::LoadBalancers);
        let (permit, session) = self.preconditions.wait(rpc, admitted).await??;
        Ok(Slot { permit, session })
    }

    pub(super) async fn ensure_alone(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Answered {
        let slot = self.slot_now("EnsureLoadBalancer").await?;
        let input = EnsureInput {
            service: Arc::new(service.clone()),
            targets: Arc::clone(targets),
        };
        self.load_balancers().ensure(&slot, input).await
    }

    pub(super) async fn delete_alone(&self, service: &ServiceView) -> Answered {
        let slot = self.slot_now("DeleteLoadBalancer").await?;
        self.load_balancers().delete(slot, service).await
    }

    /// Calls [`Provider::update_some`] and requires a result for each Service.
    pub(super) async fn update_together(
        &self,
        updates: Vec<Asked>,
        targets: &Arc<Targets>,
    ) -> Vec<Answered> {
        let results = self.update_some(updates, targets).await;
        results.into_iter().map(Option::unwrap).collect()
    }

    /// Updates in calls as large as the provider takes, with the results in order; none: the Service is to be asked
    /// about again.
    pub(super) async fn update_some(
        &self,
        updates: Vec<Asked>,
        targets: &Arc<Targets>,
    ) -> Vec<Option<Answered>> {
        let (updates, answered): (VecDeque<_>, Vec<_>) = updates.into_iter().unzip();
        let (results, ()) =
            tokio::join!(join_all(answered), self.update_by_and_by(updates, targets));
        let results = results.into_iter().map(Result::ok);
        results.map(|answer| Some(answer?.result)).collect()
    }

    async fn update_by_and_by(&self, mut waiting: VecDeque<TargetsUpdate>, targets: &Arc<Targets>) {
        let mut calls = FuturesUnordered::new();
        loop {
            if waiting.is_empty() {
                match calls.next().await {
                    Some((unsent, _)) => waiting.extend::<Vec<_>>(unsent),
                    None => return,
                }
                continue;
            }
            let slot = tokio::select! {
                slot = self.slot_now("UpdateLoadBalancerNodes") => slot,
                Some((unsent, _)) = calls.next() => {
                    waiting.extend(unsent);
                    continue;
                }
            };
            match slot {
                Ok(slot) => {
                    let most = slot.services_per_update().min(waiting.len());
                    let updates = waiting.drain(..most).collect();
                    calls.push(self.load_balancers().update(slot, updates, targets));
                }
                Err(error) => waiting.drain(..).for_each(|one| one.fail(error.clone())),
            }
        }
    }

    /// A batch of one.
    pub(super) async fn update_load_balancer(
        &self,
        service: Arc<ServiceView>,
        targets: Arc<Targets>,
    ) -> Answered {
        let preconditions = self.preconditions.clone();
        let update = TargetsUpdate::new(service, move || preconditions.is_wanted());
        let mut results = self.update_together(vec![update], &targets).await;
        results.remove(0)
    }
}
