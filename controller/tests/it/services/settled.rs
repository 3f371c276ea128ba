//! The cost of a restart: nothing, where nothing has changed (S-12 and S-72 are upstream's
//! behaviour).

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use super::{ENSURE, FINALIZER, MADE, SETTLED, UPDATE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{addresses_of, annotation_of, condition},
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

/// With each way to select targets.
#[tokio::test]
async fn a_restart_over_selected_targets_changes_and_writes_and_says_nothing() {
    let pool = "example.com/pool";
    let nodes = super::fleet(6).map(|machine| machine.label(pool, "x"));
    let mut stage = super::alone(&["--lb-target-label-key=example.com/rack"])
        .flag("--leader-elect=true")
        .machines(nodes)
        .start()
        .await;
    let selector = "outrigger.dev/node-selector";
    stage.serve(annotated("some", selector, pool)).await;
    let plain = stage.serve(load_balancer("plain")).await;
    stage
        .merge("n-00003", json!({"metadata": {"labels": {pool: null}}}))
        .await;
    for node in 0..6 {
        let rack = json!({"metadata": {"labels": {"example.com/rack": "7"}}});
        stage.merge(&format!("n-{node:05}"), rack).await;
    }
    until("the Lease says what all have", async || {
        let changes = stage.mock.changes().await;
        holds(changes[1] > 0, || format!("{changes:?}"))
    })
    .await;
    stage.targets_are_remembered().await;
    let before = stage.mock.changes().await;
    let writes = stage.writes_after_restart().await;
    assert_eq!(without_probe(&writes), [""; 0]);
    let [ensured, updated, deleted] = stage.mock.changes().await;
    // Those of the Service that shows that it is at work.
    assert_eq!(
        [ensured, updated, deleted],
        [before[0] + 1, before[1], before[2] + 1]
    );
    assert_eq!(stage.mock.targets(uid(&plain)).await.len(), 6);
}

/// Beside its own provider, which has never heard of any load balancer.
#[tokio::test]
async fn a_standby_that_takes_over_settled_services_asks_for_nothing() {
    let setup = Setup::without_provider()
        .flag("--controllers=service-lb-controller")
        .machines(super::fleet(2));
    let cluster = setup.prepare().await;
    let mut leader = cluster.replica("leader").await;
    leader.leads().await;
    let mut services = Vec::new();
    for name in ["a", "b", "c"] {
        services.push(cluster.serve(load_balancer(name)).await);
    }
    for service in &services {
        cluster.only_events(service, &MADE).await;
    }
    cluster.targets_are_remembered().await;
    let mut next = cluster.replica("next").await;
    next.follows(&mut leader).await;
    leader.controller.terminate().await;
    next.leads().await;
    let probe = cluster.serve(load_balancer("probe")).await;
    assert_eq!(next.mock.changes().await, [1, 0, 0]);
    for service in &services {
        let name = service.metadata.name.as_deref().unwrap();
        assert!(
            next.writes_of(name).is_empty(),
            "{:?}",
            next.writes_of(name)
        );
        cluster.only_events(service, &MADE).await;
    }
    cluster.only_events(&probe, &MADE).await;
}

/// A provider that has forgotten everything but its cloud.
#[tokio::test]
async fn a_provider_that_restarts_is_asked_for_nothing_either() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state={}", state.path().join("state.json").display());
    let mut stage = elected(&[&state, "--state-interval=10ms", "--state-sync"])
        .start()
        .await;
    stage.settled(5).await;
    stage.mock.kill().await;
    stage.restart_mock().await;
    stage.at_work().await;
    // The new mock counts from 0.
    assert_eq!(stage.mock.changes().await, [1, 0, 1]);
    stage.register(&Machine::new("new").initialized()).await;
    stage.updated(5).await;
    assert_eq!(stage.mock.updates().await, 5);
}

#[tokio::test]
async fn only_services_changed_while_no_controller_ran_are_ensured() {
    let mut stage = elected(&[]).start().await;
    stage.settled(6).await;
    stage.controller.terminate().await;
    stage
        .change_service("s-1", json!({"spec": {"sessionAffinity": "ClientIP"}}))
        .await;
    stage
        .change_service("s-2", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    stage.delete_service("s-3").await;
    stage.start_controller();
    stage.at_work().await;
    stage.service_is_gone("s-3").await;
    stage.mock.was_called(ENSURE, 8).await;
    assert_eq!(stage.mock.changes().await, [8, 0, 2]);
}

/// The set of nodes that all have is remembered too.
#[tokio::test]
async fn nodes_changed_while_no_controller_ran_go_out_once() {
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(6).await;
    stage.controller.terminate().await;
    stage.register(&Machine::new("new").initialized()).await;
    stage.start_controller();
    for service in &services {
        stage
            .mock
            .sends_to(uid(service), &["n-00000", "n-00001", "new"])
            .await;
    }
    assert_eq!(stage.mock.updates().await, 6);
    assert_eq!(stage.mock.calls(ENSURE).await, 6);
    stage.targets_are_remembered().await;
    // Neither once more.
    let writes = stage.writes_after_restart().await;
    assert_eq!(without_probe(&writes), [""; 0]);
    assert_eq!(stage.mock.updates().await, 6);
    stage
        .nodes()
        .delete("new", &DeleteParams::default())
        .await
        .unwrap();
    stage.updated(12).await;
}

/// `kubectl get -o yaml | sed s/web/copy/ | kubectl apply`, status and all.
#[tokio::test]
async fn a_copied_manifest_does_not_look_settled() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let mut copy = serde_json::to_value(&service).unwrap();
    copy["metadata"] = json!({
        "name": "copy", "annotations": copy["metadata"]["annotations"], "finalizers": [FINALIZER],
    });
    for field in ["clusterIP", "clusterIPs"] {
        copy["spec"].as_object_mut().unwrap().remove(field);
    }
    copy["spec"]["ports"][0]
        .as_object_mut()
        .unwrap()
        .remove("nodePort");
    let status = copy["status"].clone();
    let copied = stage.create_service(copy).await;
    stage
        .change_service_status("copy", json!({"status": status}))
        .await;
    let copied = stage
        .service_that("copy", "has its own load balancer", |copy| {
            annotation_of(copy, SETTLED).is_some_and(|record| record.contains(uid(&copied)))
                && condition(copy, "Provisioned") == ("True", "Ready")
                && addresses_of(copy) != addresses_of(&service)
        })
        .await;
    let mut both = [uid(&service), uid(&copied)];
    both.sort_unstable();
    assert_eq!(stage.mock.owners().await, both);
    // And at its end the one that was copied stays.
    stage.delete_service("copy").await;
    stage.service_is_gone("copy").await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
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
async fn a_provider_of_another_name_takes_over_quietly() {
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(4).await;
    stage.controller.terminate().await;
    stage.mock.kill().await;
    // Its load balancers have the same addresses: they follow from the UIDs.
    stage.start_mock(&["--provider-name=other"]).await;
    stage.start_controller();
    taken_over(&stage, &services, 4, 0).await;
    let now = stage.service("s-0").await;
    assert!(annotation_of(&now, SETTLED).unwrap().starts_with("other/"));
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

/// An unreadable record counts as none; no annotation of ours does any harm.
#[tokio::test]
async fn a_damaged_record_costs_one_update_and_one_ensure() {
    let mut stage = elected(&[]).start().await;
    let services = stage.settled(1).await;
    stage.controller.terminate().await;
    stage
        .change_service("s-0", annotation(SETTLED, "spoilt"))
        .await;
    stage.start_controller();
    taken_over(&stage, &services, 2, 1).await;
}

/// The state of what was never ready is not remembered as if it were.
#[tokio::test]
async fn work_in_flight_goes_on_after_a_restart() {
    let mut stage = elected(&[]).start().await;
    let slow = annotated("web", "mock.example/provisioning-time", "3s");
    let service = stage.create_service(slow).await;
    stage.mock.was_called(ENSURE, 1).await;
    stage.restart_controller().await;
    stage.served("web").await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    stays(
        "one load balancer",
        Duration::from_millis(200),
        async || {
            let owners = stage.mock.owners().await;
            holds(owners.len() == 1, || format!("{owners:?}"))
        },
    )
    .await;
}
