//! Mistakes about load balancers.

mod answers;
mod keys;
mod lifecycle;
mod queries;
mod refusals;
mod targets;

use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest,
    LoadBalancerAnswer, NodeTargets, Service,
};

use super::Defect;
use super::hook::{Next, context_of};
use crate::exchange::Call;

pub(super) fn defects() -> Vec<Defect> {
    let areas = [
        answers::defects(),
        queries::defects(),
        lifecycle::defects(),
        keys::defects(),
        targets::defects(),
        refusals::defects(),
    ];
    areas.into_iter().flatten().collect()
}

/// The Service of a call about one; it has the same place in each request.
pub(super) fn service_of(call: &Call) -> Service {
    let request: GetLoadBalancerRequest = call.message();
    request.service.unwrap_or_default()
}

/// The key of such a call.
pub(super) fn key_of(call: &Call) -> String {
    service_of(call).uid
}

impl Defect {
    /// Changes the Service of each Ensure.
    pub(super) fn ensured(self, change: impl Fn(&mut Service) + Send + Sync + 'static) -> Self {
        self.request(move |request: &mut EnsureLoadBalancerRequest| {
            request.service.iter_mut().for_each(&change);
        })
    }

    /// Changes the Service of each Get.
    pub(super) fn got(self, change: impl Fn(&mut Service) + Send + Sync + 'static) -> Self {
        self.request(move |request: &mut GetLoadBalancerRequest| {
            request.service.iter_mut().for_each(&change);
        })
    }

    /// Changes the Service of each Delete.
    pub(super) fn deleted(self, change: impl Fn(&mut Service) + Send + Sync + 'static) -> Self {
        self.request(move |request: &mut DeleteLoadBalancerRequest| {
            request.service.iter_mut().for_each(&change);
        })
    }

    /// Changes the answer to each Get.
    pub(super) fn get_answer(
        self,
        change: impl Fn(&Service, &mut LoadBalancerAnswer) + Send + Sync + 'static,
    ) -> Self {
        self.answer::<GetLoadBalancerRequest>(move |request, message| {
            let service = request.service.clone().unwrap_or_default();
            change(&service, message.answer.get_or_insert_default());
        })
    }

    /// Changes the answer to each Ensure.
    pub(super) fn ensure_answer(
        self,
        change: impl Fn(&Service, &mut LoadBalancerAnswer) + Send + Sync + 'static,
    ) -> Self {
        self.answer::<EnsureLoadBalancerRequest>(move |request, message| {
            let service = request.service.clone().unwrap_or_default();
            change(&service, message.answer.get_or_insert_default());
        })
    }
}

/// The correct answer to a Get about a Service with these targets, or without.
pub(super) async fn seen(
    call: &Call,
    next: &Next,
    service: Service,
    targets: Option<NodeTargets>,
) -> LoadBalancerAnswer {
    let request = GetLoadBalancerRequest {
        context: context_of(call),
        service: Some(service),
        targets,
        identity: None,
    };
    let mut answers = next.ask(call, &request).await;
    answers.pop().and_then(|one| one.answer).unwrap_or_default()
}

/// Deletes the load balancer of a Service, whatever comes of it.
pub(super) async fn delete(call: &Call, next: &Next, service: Service) {
    let request = DeleteLoadBalancerRequest {
        context: context_of(call),
        service: Some(service),
        identity: None,
    };
    next.ask(call, &request).await;
}
