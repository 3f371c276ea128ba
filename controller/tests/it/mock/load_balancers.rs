//! The load balancers of the mock's cloud.

use outrigger_provider_mock::{
    control::{Command, EditLoadBalancer, NewLoadBalancer, ShownLoadBalancers},
    faults::{Effect, Fault, InjectedError, Method},
    load_balancers::{LoadBalancer, ServiceTag},
};

use super::{Mock, only};
use crate::wait::{holds, until};

/// The calls that change the cloud.
const MUTATING: [Method; 3] = [
    Method::EnsureLoadBalancer,
    Method::UpdateLoadBalancerNodes,
    Method::DeleteLoadBalancer,
];

/// An error of the provider's own.
pub(crate) fn error(code: tonic::Code, reason: &str, message: &str) -> InjectedError {
    InjectedError::new(code)
        .with_reason(reason)
        .with_message(message)
}

impl Mock {
    /// All of them, each with its targets, by id.
    pub(crate) async fn load_balancers(&self) -> Vec<LoadBalancer> {
        let list = Command::LoadBalancers;
        let shown: ShownLoadBalancers = self.control.ask(&list).await.unwrap();
        shown.load_balancers
    }

    /// The one of the Service with this UID.
    pub(crate) async fn load_balancer(&self, uid: &str) -> Option<LoadBalancer> {
        let mut all = self.load_balancers().await.into_iter();
        all.find(|one| one.service.as_ref().is_some_and(|tag| tag.uid == uid))
    }

    /// The UIDs of the Services that have one, sorted.
    pub(crate) async fn owners(&self) -> Vec<String> {
        let all = self.load_balancers().await;
        let tags = all.into_iter().filter_map(|one| one.service);
        let mut uids: Vec<_> = tags.map(|tag| tag.uid).collect();
        uids.sort_unstable();
        uids
    }

    /// The names of the nodes that the load balancer of this UID sends to.
    pub(crate) async fn targets(&self, uid: &str) -> Vec<String> {
        let load_balancer = self.load_balancer(uid).await;
        let targets = load_balancer.map(|one| one.targets).unwrap_or_default();
        targets
            .iter()
            .map(|target| target.node.to_string())
            .collect()
    }

    /// Waits until these are the nodes that the load balancer of this UID sends to.
    pub(crate) async fn sends_to(&self, uid: &str, nodes: &[&str]) {
        until(&format!("the targets of {uid}"), async || {
            let targets = self.targets(uid).await;
            holds(targets == nodes, || format!("{targets:?}"))
        })
        .await;
    }

    /// Waits until the Service with this UID has none.
    pub(crate) async fn has_none_of(&self, uid: &str) {
        until(&format!("{uid} has no load balancer"), async || {
            let load_balancer = self.load_balancer(uid).await;
            holds(load_balancer.is_none(), || format!("{load_balancer:?}"))
        })
        .await;
    }

    /// Changes one in the cloud, without the controller.
    pub(crate) async fn edit_load_balancer(&self, edit: EditLoadBalancer) {
        self.command(Command::EditLoadBalancer(edit)).await;
    }

    /// Deletes one in the cloud, without the controller, by its id, its Service's UID or
    /// `namespace/name`.
    pub(crate) async fn lose_load_balancer(&self, target: &str) {
        self.command(Command::DeleteLoadBalancers(only(target)))
            .await;
    }

    /// Makes one that no Service asked for.
    pub(crate) async fn add_load_balancer(
        &self,
        id: &str,
        cluster: &str,
        service: Option<ServiceTag>,
    ) {
        let new = NewLoadBalancer {
            id: id.to_owned(),
            cluster: cluster.to_owned(),
            service,
            addresses: Vec::new(),
        };
        self.command(Command::CreateLoadBalancer(new)).await;
    }

    /// Calls of a method that have ended, well or not.
    pub(crate) async fn calls(&self, method: Method) -> u64 {
        let counts = self.counts().await;
        let codes = counts.calls.get(method.as_str());
        codes.map_or(0, |codes| codes.values().sum())
    }

    /// Waits until so many calls of a method have ended.
    pub(crate) async fn was_called(&self, method: Method, times: u64) {
        until(&format!("{times} calls of {method}"), async || {
            let calls = self.calls(method).await;
            holds(calls >= times, || format!("{calls} so far"))
        })
        .await;
    }

    /// Calls that change something and have ended: of ensure, update and delete.
    pub(crate) async fn changes(&self) -> [u64; 3] {
        let mut calls = [0; 3];
        for (count, method) in calls.iter_mut().zip(MUTATING) {
            *count = self.calls(method).await;
        }
        calls
    }

    /// Updates of targets that have ended.
    pub(crate) async fn updates(&self) -> u64 {
        self.calls(Method::UpdateLoadBalancerNodes).await
    }
}

/// The effect on the calls of a method about one Service of the namespace `default`.
pub(crate) fn about(method: Method, name: &str, effect: Effect) -> Fault {
    Fault::on(method, effect).for_service(&format!("default/{name}"))
}
