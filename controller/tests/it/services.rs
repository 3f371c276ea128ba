//! Services of type `LoadBalancer` and their load balancers: S-10 to S-72, H-1 to H-7, and the
//! quirks that are not copied.
//!
//! Not here: S-1 to S-3, S-36's longer waits and S-58, which are the queue's and the wiring's own
//! business; S-31, S-37 and S-42, which are otherwise on purpose; H-5, which is a provider's; H-6 and
//! Q-35, which are seen in the core's tests alone.

mod addresses;
mod change;
mod class;
mod cleanup;
mod conditions;
mod crashes;
mod drift;
mod effects;
mod ensure;
mod failures;
mod gone;
mod metrics;
mod selection;
mod settled;
mod targets;
mod trouble;
mod types;
mod updates;

use k8s_openapi::api::core::v1::Service;
use outrigger_provider_mock::faults::Method;
use outrigger_testbed::{faults::Recorded, nodes::Machine};

use crate::{
    look::services::{annotation_of, finalizers},
    stage::{Setup, Stage},
    wait::{holds, until},
};

/// Held by Kubernetes' own name for it.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Where the controller keeps what a load balancer was made from.
const SETTLED: &str = "outrigger.dev/last-applied";

const ENSURE: Method = Method::EnsureLoadBalancer;
const UPDATE: Method = Method::UpdateLoadBalancerNodes;
const DELETE: Method = Method::DeleteLoadBalancer;
const GET: Method = Method::GetLoadBalancer;

/// The events of a Service from its making to its address.
const MADE: [&str; 2] = ["EnsuringLoadBalancer", "EnsuredLoadBalancer"];

/// A cloud, and a controller with the loop about Services alone: no other loop changes nodes, and
/// changes of them go out soon.
fn alone(mock: &[&str]) -> Setup {
    Setup::mock(mock).flags(&[
        "--controllers=service-lb-controller",
        "--load-balancer-update-idle=100ms",
        "--load-balancer-update-ceiling=1s",
    ])
}

/// The same with two nodes, `n-00000` and `n-00001`.
fn quick(mock: &[&str]) -> Setup {
    alone(mock).machines(fleet(2))
}

/// So many nodes that no other loop has anything to do with.
fn fleet(count: usize) -> impl Iterator<Item = Machine> {
    Machine::numbered("n-", count).map(Machine::initialized)
}

impl Stage {
    /// Waits until these are the ports of the load balancer of the Service with this UID.
    async fn sees_ports(&self, uid: &str, expected: &[i32]) {
        until(&format!("the ports of {uid}"), async || {
            let made = self.mock.load_balancer(uid).await;
            let ports = made.map(|made| made.ports).unwrap_or_default();
            let ports: Vec<_> = ports.iter().map(|port| port.port).collect();
            holds(ports == expected, || format!("{ports:?}"))
        })
        .await;
    }

    /// Waits until a Service is served and the controller has nothing more to write on it.
    async fn settled_service(&self, name: &str) -> Service {
        self.served(name).await;
        self.service_that(name, "is settled", |service| {
            let record = annotation_of(service, SETTLED).unwrap_or_default();
            !record.ends_with('/') && finalizers(service) == [FINALIZER]
        })
        .await
    }

    /// Each patch of a Service that the controller has sent: its body.
    fn patches_of(&self, name: &str) -> Vec<serde_json::Value> {
        let requests = self.proxy.requests();
        let path = format!("/services/{name}");
        let patches = requests.iter().filter(|request| {
            request.is_write()
                && (request.path.ends_with(&path) || request.path.contains(&format!("{path}/")))
        });
        patches.map(Recorded::json).collect()
    }
}
