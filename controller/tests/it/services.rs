//! Services of type `LoadBalancer` and their load balancers: S-10 to S-72, H-1 to H-7, and the
//! quirks that are not copied.
//!
//! One case for each behaviour; the tables are those of `core::service` and `core::targets`, and order and concurrency are held by
//! the loop's own tests.

mod change;
mod cleanup;
mod drift;
mod failures;
mod made;
mod options;
mod settled;
mod targets;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use outrigger_provider_mock::faults::Method;
use outrigger_testbed::{faults::Recorded, nodes::Machine};

use crate::{
    cluster::services::load_balancer,
    look::{
        services::{annotation_of, finalizers},
        uid,
    },
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

impl Stage {
    /// Waits until so many Services were given new targets, each time counted.
    async fn updated(&self, times: u64) {
        until(&format!("{times} updates"), async || {
            let updates = self.mock.updates().await;
            holds(updates >= times, || format!("{updates} so far"))
        })
        .await;
    }

    /// Makes so many Services, `s-0` and so on, and waits until all are served.
    async fn serve_many(&self, count: usize) -> Vec<String> {
        let names: Vec<_> = (0..count).map(|n| format!("s-{n}")).collect();
        let made = names
            .iter()
            .map(|name| self.create_service(load_balancer(name)));
        join_all(made).await;
        let mut uids = Vec::new();
        for name in &names {
            uids.push(uid(&self.served(name).await).to_owned());
        }
        uids
    }
}
