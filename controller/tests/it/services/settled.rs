//! The cost of a restart: nothing, where nothing has changed (S-12 and S-72 are upstream's
//! behaviour).

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use super::{ENSURE, FINALIZER, MADE, SETTLED, UPDATE, quick};
use crate::{
    cluster::services::{load_balancer, load_balancer_with},
    look::{
        services::{addresses_of, annotation_of, condition, finalizers},
        uid,
    },
    replica::LEASE,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

/// With a Lease: there the controller remembers which nodes all load balancers have.
fn elected(mock: &[&str]) -> Setup {
    quick(mock).flag("--leader-elect=true")
}

impl Stage {
    /// Restarts the controller, waits until it is at work again, and returns its writes since,
    /// except the Lease.
    async fn writes_after_restart(&mut self) -> Vec<String> {
        self.controller.terminate().await;
        // Nothing of the former one is under way.
        self.proxy.take_requests();
        self.start_controller();
        self.at_work().await;
        let mut writes = self.writes();
        writes.retain(|write| !write.contains("/leases") && !write.ends_with(LEASE));
        writes
    }

    /// Waits until the controller has seen everything that is there: it serves one more Service,
    /// which is deleted again.
    async fn at_work(&self) {
        self.create_service(load_balancer("probe")).await;
        self.served("probe").await;
        self.delete_service("probe").await;
        self.service_is_gone("probe").await;
    }

    async fn settled(&self, count: usize) -> Vec<Service> {
        let names: Vec<_> = (0..count).map(|n| format!("s-{n}")).collect();
        self.serve_many(count).await;
        let services = join_all(names.iter().map(|name| self.service(name))).await;
        for service in &services {
            self.only_events(service, &MADE).await;
        }
        self.targets_are_remembered().await;
        services
    }
}

fn without_probe(writes: &[String]) -> Vec<&String> {
    writes
        .iter()
        .filter(|write| !write.contains("probe"))
        .collect()
}

#[tokio::test]
async fn a_restart_over_settled_services_changes_and_writes_and_says_nothing() {
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(20).await;
    let before = stage.mock.changes().await;
    assert_eq!(before, [20, 0, 0]);
    for round in 1..=2 {
        let writes = stage.writes_after_restart().await;
        assert_eq!(without_probe(&writes), [""; 0]);
        let [ensured, updated, deleted] = stage.mock.changes().await;
        // Those of the Service that shows that it is at work.
        assert_eq!([ensured, updated, deleted], [20 + round, 0, round]);
    }
    // Nor is anything done slowly, in the background.
    let before = stage.mock.changes().await;
    stays("nothing is changed", Duration::from_secs(2), async || {
        let now = stage.mock.changes().await;
        holds(now == before, || format!("{now:?}"))
    })
    .await;
    for service in &services {
        stage.only_events(service, &MADE).await;
    }
}

/// The set of nodes that all have is remembered too. S-44: a Service changed its type.
#[tokio::test]
async fn s44_changes_made_while_no_controller_ran_cost_the_services_and_nodes_that_they_are_about()
{
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(5).await;
    stage.controller.terminate().await;
    let changed = json!({"spec": {"sessionAffinity": "ClientIP"}});
    stage.change_service("s-1", changed).await;
    let unchanged = json!({"metadata": {"labels": {"a": "b"}}});
    stage.change_service("s-2", unchanged).await;
    stage.delete_service("s-3").await;
    let turned = json!({"spec": {"type": "ClusterIP"}});
    stage.change_service("s-4", turned).await;
    // Upstream's controller, when killed, leaves such a Service, without our record.
    let foreign = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}});
    stage
        .create_service(load_balancer_with("theirs", foreign))
        .await;
    stage.register(&Machine::new("new").initialized()).await;
    stage.start_controller();
    stage.at_work().await;
    stage.service_is_gone("s-3").await;
    for name in ["s-4", "theirs"] {
        stage
            .service_that(name, "is cleaned up", |service| {
                finalizers(service).is_empty()
            })
            .await;
    }
    for service in &services[..3] {
        let expected = ["n-00000", "n-00001", "new"];
        stage.mock.sends_to(uid(service), &expected).await;
    }
    stage.targets_are_remembered().await;
    // Those of the Service that shows that it is at work, too.
    let [ensured, _, deleted] = stage.mock.changes().await;
    assert_eq!([ensured, deleted], [7, 4]);
    // Nothing of it is done once more.
    let updates = stage.mock.updates().await;
    let writes = stage.writes_after_restart().await;
    assert_eq!(without_probe(&writes), [""; 0]);
    assert_eq!(stage.mock.updates().await, updates);
}

/// Services with load balancers of another controller: each is ensured once, and no event is
/// written where nothing differs.
async fn taken_over(stage: &Stage, services: &[Service], ensured: u64, updated: u64) {
    let mut events = MADE.to_vec();
    events.extend((updated > 0).then_some("UpdatedLoadBalancer"));
    stage.mock.was_called(ENSURE, ensured).await;
    for service in services {
        let name = service.metadata.name.as_deref().unwrap();
        let now = stage
            .service_that(name, "is settled", |service| {
                let record = annotation_of(service, SETTLED).unwrap_or_default();
                record
                    .rsplit('/')
                    .next()
                    .is_some_and(|hash| hash.split('@').next().is_some_and(|hash| hash.len() == 32))
            })
            .await;
        assert_eq!(addresses_of(&now), addresses_of(service));
        stage.only_events(service, &events).await;
    }
    assert_eq!(stage.mock.calls(ENSURE).await, ensured);
    assert_eq!(stage.mock.calls(UPDATE).await, updated);
}

/// From upstream's controller: finalizer and status, and nothing that it does not know. The nodes come before.
#[tokio::test]
async fn services_of_upstreams_controller_are_taken_over_quietly() {
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(4).await;
    stage.controller.terminate().await;
    for service in &services {
        let name = service.metadata.name.as_deref().unwrap();
        let forget = json!({"metadata": {"annotations": {SETTLED: Value::Null}}});
        stage.change_service(name, forget).await;
        stage
            .change_service_status(name, json!({"status": {"conditions": null}}))
            .await;
    }
    stage.start_controller();
    taken_over(&stage, &services, 8, 4).await;
    for service in &services {
        let now = stage
            .service(service.metadata.name.as_deref().unwrap())
            .await;
        assert_eq!(condition(&now, "Provisioned"), ("True", "Ready"));
    }
}

#[tokio::test]
async fn a_provider_that_is_configured_anew_ensures_all_quietly() {
    // Six addresses: without those of the status, Services would get each other's.
    let pool = "--lb-pool=192.0.2.0/29";
    let mut stage = elected(&["--lb-configuration-revision=1", pool])
        .start()
        .await;
    let services = stage.settled(4).await;
    // The load balancers are lost with the process.
    stage.mock.kill().await;
    stage
        .start_mock(&["--lb-configuration-revision=2", pool])
        .await;
    stage.mock.was_called(ENSURE, 4).await;
    until("all are settled again", async || {
        for service in &services {
            let now = stage
                .service(service.metadata.name.as_deref().unwrap())
                .await;
            let (old, new) = (
                annotation_of(service, SETTLED),
                annotation_of(&now, SETTLED),
            );
            holds(old != new, || format!("{new:?}"))?;
        }
        Ok(())
    })
    .await;
    taken_over(&stage, &services, 4, 0).await;
}
