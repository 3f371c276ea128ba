//! A cloud that makes load balancers in memory, found again by the UID of their Service.
//!
//! ```sh
//! cargo run --example load_balancers -- --endpoint unix://$PWD/run/provider.sock
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_provider_sdk::{
    Answer, Context, Deleted, Ensured, Error, Ingress, LoadBalancer, LoadBalancers, Observed,
    Provider, ProviderInfo, Server, Service, Targets, Updated,
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

fn described(uid: &str) -> LoadBalancer {
    LoadBalancer::new(format!("lb-{uid}"))
        .with_name(uid)
        .with_ingress([Ingress::hostname(format!("{uid}.lb.example"))])
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
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        let Some(held) = self.with(|made| made.get(&service.uid).cloned()) else {
            return Ok(Observed::Absent.into());
        };
        let balancer = described(&service.uid);
        if targets.is_some_and(|targets| names(targets) != held) {
            let differs = Answer::from(Observed::Differs(balancer));
            return Ok(differs.because("OtherTargets", "It has other targets"));
        }
        Ok(Observed::Ready(balancer).into())
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        if let Some(port) = service.ports.iter().find(|port| port.protocol == "SCTP") {
            let text = format!("port {} wants SCTP; use TCP or UDP", port.port);
            return Err(Error::unsupported_protocol(text));
        }
        ctx.check()?;
        self.with(|made| made.insert(service.uid.clone(), names(targets)));
        Ok(Ensured::Ready(described(&service.uid)).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        ctx.check()?;
        let updated = self.with(|made| match made.get_mut(&service.uid) {
            Some(held) => {
                *held = names(targets);
                Updated::ready(None)
            }
            None => Updated::Absent,
        });
        Ok(updated.into())
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        self.with(|made| made.remove(&service.uid));
        Ok(Deleted::Absent.into())
    }
}

fn main() -> ExitCode {
    let cloud = Cloud::default();
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).load_balancers(cloud)))
}
