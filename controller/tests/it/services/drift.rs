//! Work that no change asks for: drift in the cloud, load balancers without a Service, and plans.

use std::time::Duration;

use outrigger_provider_mock::{control::EditLoadBalancer, load_balancers::ServiceTag};
use serde_json::{Value, json};

use super::{DELETE, ENSURE, GET, MADE, quick};
use crate::{
    caller::{Port, value},
    cluster::services::{annotation, load_balancer},
    look::{services::addresses_of, uid},
    stage::Stage,
    wait::{holds, until},
};

/// Instead of Q-30.
#[tokio::test]
async fn q30_a_load_balancer_changed_or_deleted_in_the_cloud_is_restored() {
    let stage = quick(&[])
        .flag("--load-balancer-drift-period=1s")
        .start()
        .await;
    let uids = stage.serve_many(3).await;
    stage
        .mock
        .edit_load_balancer(EditLoadBalancer {
            target: "default/s-0".to_owned(),
            ports: Some(vec!["TCP/81:30081".parse().unwrap()]),
            ..EditLoadBalancer::default()
        })
        .await;
    stage.mock.lose_load_balancer("default/s-1").await;
    stage.sees_ports(&uids[0], &[80]).await;
    stage.sees_ports(&uids[1], &[80]).await;
    // Each is looked at again and again, and what is as it was left is left alone.
    stage.mock.was_called(GET, 8).await;
    assert_eq!(stage.mock.changes().await, [5, 0, 0]);
    let service = stage.service("s-2").await;
    stage.only_events(&service, &MADE).await;
    let patches = stage.patches_of("s-2");
    assert_eq!(patches.len(), 2, "{patches:?}");
}

/// Other targets are drift too: the request names the wanted ones.
#[tokio::test]
async fn targets_changed_in_the_cloud_are_restored() {
    let stage = quick(&[])
        .flag("--load-balancer-drift-period=1s")
        .start()
        .await;
    let service = stage.serve(load_balancer("web")).await;
    stage
        .mock
        .edit_load_balancer(EditLoadBalancer {
            target: "default/web".to_owned(),
            nodes: Some(vec!["n-00000".to_owned()]),
            ..EditLoadBalancer::default()
        })
        .await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001"])
        .await;
    // A load balancer without drift is read and left alone.
    stage.mock.was_called(GET, 4).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);
    let log = stage.controller.log();
    assert!(
        log.contains("the targets would be changed, 1 to 2"),
        "{log}"
    );
}

/// Another address is drift too.
#[tokio::test]
async fn an_address_changed_in_the_cloud_is_written_to_the_service() {
    let stage = quick(&[])
        .flag("--load-balancer-drift-period=1s")
        .start()
        .await;
    stage.serve(load_balancer("web")).await;
    stage
        .mock
        .edit_load_balancer(EditLoadBalancer {
            target: "default/web".to_owned(),
            addresses: Some(vec!["198.18.9.9".parse().unwrap()]),
            ..EditLoadBalancer::default()
        })
        .await;
    stage
        .service_that("web", "has the new address", |service| {
            addresses_of(service) == ["198.18.9.9 VIP"]
        })
        .await;
}

#[tokio::test]
async fn no_drift_is_looked_for_where_it_is_switched_off() {
    let stage = quick(&[])
        .flag("--load-balancer-drift-period=0s")
        .start()
        .await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    stage.mock.lose_load_balancer("default/web").await;
    stage.silent(Duration::from_secs(2)).await;
    assert_eq!(stage.mock.calls(GET).await, 0);
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
}

impl Stage {
    async fn cluster_uid(&self) -> String {
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(self.admin());
        let system = namespaces.get("kube-system").await.unwrap();
        uid(&system).to_owned()
    }
}

/// Reported, and never deleted.
#[tokio::test]
async fn load_balancers_without_a_service_are_reported_and_left_alone() {
    let port = Port::reserve();
    let mut stage = quick(&[])
        .scraped_at(&port)
        .flag("--load-balancer-drift-period=1s")
        .start()
        .await;
    stage.serve(load_balancer("web")).await;
    let cluster = stage.cluster_uid().await;
    let tag = |name: &str, uid: &str| ServiceTag {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    // Load balancers of a Service that is gone, of an earlier Service of the same name, and of no Service at all.
    for (id, service) in [
        ("lb-gone", Some(tag("gone", "0a1b"))),
        ("lb-former", Some(tag("web", "0a1c"))),
        ("lb-untagged", None),
    ] {
        stage.mock.add_load_balancer(id, &cluster, service).await;
    }
    // A load balancer of another cluster in the same account: the provider gets no call about it.
    stage
        .mock
        .add_load_balancer("lb-other", "another-cluster", None)
        .await;
    let orphans = async |count: f64| {
        until(&format!("{count} orphans"), async || {
            let metrics = port.scrape().await;
            let name = "outrigger_service_orphaned_load_balancers ";
            let number = value(&metrics, name);
            holds(number == Some(count), || format!("{number:?}"))
        })
        .await;
    };
    orphans(3.0).await;
    for id in ["lb-gone", "lb-former", "lb-untagged"] {
        stage.controller.says(&["WARN", id]).await;
    }
    stage.mock.lose_load_balancer("lb-gone").await;
    orphans(2.0).await;
    assert_eq!(stage.mock.calls(DELETE).await, 0);
    assert_eq!(stage.mock.load_balancers().await.len(), 4);
}

/// `--plan` prints what would change and changes nothing.
#[tokio::test]
async fn a_plan_tells_what_would_change_and_changes_nothing() {
    let mut stage = quick(&[]).start().await;
    for name in ["same", "changed", "deleted"] {
        stage.serve(load_balancer(name)).await;
    }
    stage.controller.terminate().await;
    let ports = json!([{"name": "http", "protocol": "TCP", "port": 81}]);
    stage
        .change_service("changed", json!({"spec": {"ports": ports}}))
        .await;
    stage
        .change_service("same", annotation("outrigger.dev/note", "x"))
        .await;
    stage.delete_service("deleted").await;
    stage.create_service(load_balancer("made")).await;
    let before = (stage.mock.changes().await, stage.writes());
    let json = stage
        .run_to_its_end(&["--plan", "--plan-output=json"])
        .await;
    let json: Value = serde_json::from_str(&json[json.find("{\n").unwrap()..]).unwrap();
    let actions: Vec<_> = json["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|planned| {
            (
                planned["service"].as_str().unwrap(),
                planned["action"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        actions,
        [
            ("default/changed", "ensure"),
            ("default/deleted", "delete"),
            ("default/made", "ensure"),
            ("default/same", "keep"),
        ]
    );
    let printed = stage.run_to_its_end(&["--plan"]).await;
    for (name, words) in [
        ("default/changed", "TCP/81"),
        ("default/deleted", "would be deleted"),
        ("default/made", "would be made"),
    ] {
        let mut lines = printed.lines();
        let is_printed = lines.any(|line| line.contains(name) && line.contains(words));
        assert!(is_printed, "{name}: no {words:?} in\n{printed}");
    }
    let mut lines = printed.lines();
    let same = lines.find(|line| line.contains("default/same") && line.contains("would"));
    assert_eq!(same, None);
    assert_eq!((stage.mock.changes().await, stage.writes()), before);
}
