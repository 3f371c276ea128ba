//! A provider that only counts.

use std::{collections::BTreeSet, sync::Arc};

use outrigger_provider_sdk::{
    Answer, Context, Deleted, Ensured, Error, Ingress, LoadBalancer, LoadBalancers, Observed,
    Provider, ProviderInfo, Service, Targets, Updated,
};
use parking_lot::Mutex;

#[derive(Clone, Default)]
pub(crate) struct Counting(Arc<Mutex<Counted>>);

/// The counted bytes and messages.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    pub(crate) services: usize,
    /// The targets of all Services together.
    pub(crate) targets: usize,
    /// By their request id.
    pub(crate) calls: BTreeSet<String>,
}

impl Counting {
    pub(crate) fn take(&self) -> Counted {
        std::mem::take(&mut self.0.lock())
    }

    fn count(&self, ctx: &Context, targets: &Targets) {
        let mut counted = self.0.lock();
        counted.services += 1;
        counted.targets += targets.len();
        counted.calls.insert(ctx.request_id().to_owned());
    }
}

impl Provider for Counting {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("counting", "1")
    }
}

impl LoadBalancers for Counting {
    async fn get_load_balancer(
        &self,
        _: &Context,
        _: &Service,
        _: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        Ok(Observed::Absent.into())
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        self.count(ctx, targets);
        let ip = [198, 18, 0, 1].into();
        let load_balancer = LoadBalancer::new(&service.uid)
            .with_name(&service.name)
            .with_ingress([Ingress::ip(ip)]);
        Ok(Ensured::Ready(load_balancer).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        _: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        self.count(ctx, targets);
        Ok(Updated::ready(None).into())
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        _: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        Ok(Deleted::Absent.into())
    }
}
