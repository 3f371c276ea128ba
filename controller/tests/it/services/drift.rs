//! Work that no change asks for: drift in the cloud, load balancers without a Service, and plans.

use outrigger_provider_mock::{control::EditLoadBalancer, load_balancers::ServiceTag};
use serde_json::{Value, json};

use super::{DELETE, GET, MADE, quick};
use crate::{
    caller::{Port, value},
    cluster::services::{annotation, load_balancer},
    look::{services::addresses_of, uid},
    stage::Stage,
    wait::{holds, until},
};

/// Instead of Q-30. Load balancers without a Service are reported, and never deleted.
#[tokio::test]
async fn q30_what_was_changed_in_the_cloud_is_restored_and_what_has_no_service_is_reported() {
    let port = Port::reserve();
    let mut stage = quick(&[])
        .scraped_at(&port)
        .flag("--load-balancer-drift-period=1s")
        .start()
        .await;
    let uids = stage.serve_many(5).await;
    let edit = |name: &str| EditLoadBalancer {
        target: format!("default/{name}"),
        ..EditLoadBalancer::default()
    };
    let mock = &stage.mock;
    mock.edit_load_balancer(EditLoadBalancer {
        ports: Some(vec!["TCP/81:30081".parse().unwrap()]),
        ..edit("s-0")
    })
    .await;
    mock.edit_load_balancer(EditLoadBalancer {
        nodes: Some(vec!["n-00000".to_owned()]),
        ..edit("s-1")
    })
    .await;
    // The Service follows: no other address was asked for.
    mock.edit_load_balancer(EditLoadBalancer {
        addresses: Some(vec!["198.18.9.9".parse().unwrap()]),
        ..edit("s-2")
    })
    .await;
    mock.lose_load_balancer("default/s-3").await;
    let cluster = stage.cluster_uid().await;
    let tag = |name: &str, uid: &str| ServiceTag {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    // Load balancers of a Service that is gone, of an earlier Service of the same name, and of no Service at all.
    let orphans = ["lb-gone", "lb-former", "lb-untagged"];
    let tags = [Some(tag("gone", "0a1b")), Some(tag("s-4", "0a1c")), None];
    for (id, service) in orphans.into_iter().zip(tags) {
        mock.add_load_balancer(id, &cluster, service).await;
    }
    // A load balancer of another cluster in the same account: the provider gets no call about it.
    mock.add_load_balancer("lb-other", "another-cluster", None)
        .await;
    stage.sees_ports(&uids[0], &[80]).await;
    stage.sees_ports(&uids[3], &[80]).await;
    mock.sends_to(&uids[1], &["n-00000", "n-00001"]).await;
    stage
        .service_that("s-2", "has the new address", |service| {
            addresses_of(service) == ["198.18.9.9 VIP"]
        })
        .await;
    until("the orphans are counted", async || {
        let metrics = port.scrape().await;
        let number = value(&metrics, "outrigger_service_orphaned_load_balancers ");
        holds(number == Some(3.0), || format!("{number:?}"))
    })
    .await;
    // No worker would take a key from the queue of a loop that is off, and the alert about the oldest key would fire.
    let metrics = port.scrape().await;
    let lines = metrics.lines();
    let queues = lines.filter_map(|line| line.strip_prefix("workqueue_depth{name="));
    assert_eq!(queues.count(), 1, "{metrics}");
    for id in orphans {
        stage.controller.says(&["WARN", id]).await;
    }
    stage
        .controller
        .says(&["the targets would be changed, 1 to 2"])
        .await;
    // Each is looked at again and again, and what is as it was left is left alone.
    let looks = stage.mock.calls(GET).await;
    stage.mock.was_called(GET, looks + 10).await;
    assert_eq!(stage.mock.calls(DELETE).await, 0);
    let service = stage.service("s-4").await;
    stage.only_events(&service, &MADE).await;
    let patches = stage.patches_of("s-4");
    assert_eq!(patches.len(), 2, "{patches:?}");
}

impl Stage {
    async fn cluster_uid(&self) -> String {
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(self.admin());
        let system = namespaces.get("kube-system").await.unwrap();
        uid(&system).to_owned()
    }
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
