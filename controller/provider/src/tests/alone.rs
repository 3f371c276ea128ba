//! Calls about load balancers as a loop makes them, without a queue: each waits for its slot by itself.

use std::sync::Arc;

use outrigger_core::{
    service::{ServiceView, answer::LoadBalancerAnswer},
    targets::Targets,
};

use crate::{Error, Provider, Slot, admission::Urgency};

type Answered = Result<LoadBalancerAnswer, Error>;

impl Provider {
    /// Returns a slot like [`Provider::slot`], but fails without a provider.
    async fn slot_now(&self, rpc: &'static str) -> Result<Slot, Error> {
        let admitted = self.shared.admit(Urgency::LoadBalancers);
        let (permit, session) = self.preconditions.wait(rpc, admitted).await??;
        Ok(Slot::new(permit, session))
    }

    pub(super) async fn ensure_alone(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Answered {
        let slot = self.slot_now("EnsureLoadBalancer").await?;
        let ensure = self.load_balancers();
        ensure.ensure(slot, service, targets).await
    }

    pub(super) async fn update_alone(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Answered {
        let slot = self.slot_now("UpdateLoadBalancerNodes").await?;
        let update = self.load_balancers();
        update.update(slot, service, targets).await
    }

    pub(super) async fn delete_alone(&self, service: &ServiceView) -> Answered {
        let slot = self.slot_now("DeleteLoadBalancer").await?;
        self.load_balancers().delete(slot, service).await
    }
}
