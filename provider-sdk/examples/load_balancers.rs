//! A cloud that makes load balancers in memory, found again by the UID of their Service.
//!
//! ```sh
//! cargo run --example load_balancers -- --endpoint unix://$PWD/run/provider.sock
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancers, OfService as _, Provider, ProviderInfo, Server, Targets,
    answer, v1,
};

/// Names of the targets, by Service UID.
type Made = BTreeMap<String, Vec<String>>;

#[derive(Clone, Default)]
struct Cloud(Arc<Mutex<Made>>);

impl Cloud {
    fn with<T>(&self, change: impl FnOnce(&mut Made) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn ready(uid: &str) -> Answer {
    let ingress = v1::LoadBalancerIngress {
        hostname: format!("{uid}.lb.example"),
        ..v1::LoadBalancerIngress::default()
    };
    answer::ready([ingress])
}

fn names(targets: &Targets) -> Vec<String> {
    targets.iter().map(|node| node.name.clone()).collect()
}

impl Provider for Cloud {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("memory", env!("CARGO_PKG_VERSION"))
    }
}

impl LoadBalancers for Cloud {
    async fn get_load_balancer(
        &self,
        _: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let uid = &request.service().uid;
        let Some(held) = self.with(|made| made.get(uid).cloned()) else {
            return Ok(answer::absent());
        };
        if targets.is_some_and(|targets| names(targets) != held) {
            return Ok(answer::differs("It has other targets"));
        }
        Ok(ready(uid))
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        if let Some(port) = service.ports.iter().find(|port| port.protocol == "SCTP") {
            let text = format!("port {} wants SCTP; use TCP or UDP", port.port);
            return Err(Error::unsupported_protocol(text));
        }
        ctx.check()?;
        self.with(|made| made.insert(service.uid.clone(), names(targets)));
        Ok(ready(&service.uid))
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        ctx.check()?;
        Ok(
            self.with(|made| match made.get_mut(&request.service().uid) {
                Some(held) => {
                    *held = names(targets);
                    answer::ready([])
                }
                None => answer::absent(),
            }),
        )
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        self.with(|made| made.remove(&request.service().uid));
        Ok(answer::absent())
    }
}

fn main() -> ExitCode {
    let cloud = Cloud::default();
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).load_balancers(cloud)))
}
