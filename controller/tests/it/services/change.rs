//! Which changes of a Service reach the cloud (S-13, S-21, S-22), and the annotations for people.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DELETE, ENSURE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{addresses_of, condition},
        uid,
    },
    stage::Stage,
    wait::{holds, stays},
};

async fn ensured(stage: &Stage, times: u64, what: &Value) {
    stage.mock.was_called(ENSURE, times).await;
    let calls = stage.mock.calls(ENSURE).await;
    assert_eq!(calls, times, "{what}");
    // Its next change does not meet our write.
    stage.settled_service("web").await;
}

async fn stays_ensured(stage: &Stage, times: u64, what: &str) {
    stays(what, Duration::from_millis(700), async || {
        let calls = stage.mock.calls(ENSURE).await;
        holds(calls == times, || {
            format!("{calls} calls instead of {times}")
        })
    })
    .await;
}

/// S-21.
#[tokio::test]
async fn s21_what_a_load_balancer_is_made_of_is_ensured_when_it_changes() {
    let stage = quick(&[]).start().await;
    stage.serve(load_balancer("web")).await;
    let spec = |spec: Value| json!({"spec": spec});
    let port = |change: Value| {
        let mut port = json!({"name": "http", "protocol": "TCP", "port": 80});
        let (into, change) = (port.as_object_mut().unwrap(), change.as_object().unwrap());
        into.extend(change.clone());
        json!({"spec": {"ports": [port]}})
    };
    let changes = [
        spec(json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "10.0.0.0/8"]})),
        // Their order counts.
        spec(json!({"loadBalancerSourceRanges": ["10.0.0.0/8", "192.0.2.0/24"]})),
        port(json!({"name": "web"})),
        port(json!({"name": "web", "port": 81})),
        port(json!({"name": "web", "port": 81, "protocol": "UDP"})),
        port(json!({"name": "web", "port": 81, "protocol": "UDP", "nodePort": 40_123})),
        port(
            json!({"name": "web", "port": 81, "protocol": "UDP", "nodePort": 40_123, "targetPort": 8080}),
        ),
        port(json!({
            "name": "web", "port": 81, "protocol": "UDP", "nodePort": 40_123, "targetPort": 8080,
            "appProtocol": "example.com/quic",
        })),
        json!({"spec": {"ports": [
            {"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "protocol": "TCP"},
        ]}}),
        spec(json!({"sessionAffinity": "ClientIP"})),
        spec(json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 77}}})),
        spec(json!({"loadBalancerIP": "198.18.7.7"})),
        spec(json!({"externalIPs": ["192.0.2.9"]})),
        // With the port of its health check.
        spec(json!({"externalTrafficPolicy": "Local"})),
        // Their number.
        spec(json!({"ipFamilyPolicy": "RequireDualStack"})),
        annotation("mock.example/anything", "else"),
        json!({"metadata": {"annotations": {"mock.example/anything": null}}}),
    ];
    for (times, change) in (2..).zip(changes) {
        stage.change_service("web", change.clone()).await;
        ensured(&stage, times, &change).await;
    }
    let service = stage.served("web").await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    assert_eq!(made.ports.len(), 2);
    assert!(addresses_of(&service)[0].starts_with("198.18.7.7"));
    assert_eq!(stage.mock.calls(DELETE).await, 0);
}

/// S-22.
#[tokio::test]
async fn s22_what_no_load_balancer_is_made_of_is_nobodys_business() {
    let stage = quick(&[]).start().await;
    stage.serve(load_balancer("web")).await;
    for change in [
        json!({"metadata": {"labels": {"example.com/team": "a"}}}),
        json!({"spec": {"selector": {"app": "other"}}}),
        json!({"spec": {"internalTrafficPolicy": "Local"}}),
        json!({"spec": {"allocateLoadBalancerNodePorts": false}}),
        json!({"spec": {"publishNotReadyAddresses": true}}),
        json!({"spec": {"trafficDistribution": "PreferSameZone"}}),
        // Ours, for people; and one that the mock does not read.
        annotation("outrigger.dev/note", "x"),
        annotation("example.com/other", "x"),
    ] {
        stage.change_service("web", change).await;
    }
    let status = json!({"status": {"conditions": [{
        "type": "example.com/Ready", "status": "True", "reason": "Yes", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    // Another client's patch that does not know of ours: a merge patch has the whole list.
    let service = stage.service("web").await;
    let mut conditions = serde_json::to_value(&service.status.unwrap().conditions).unwrap();
    let theirs = status["status"]["conditions"][0].clone();
    conditions.as_array_mut().unwrap().push(theirs);
    let status = json!({"status": {"conditions": conditions}});
    stage.change_service_status("web", status).await;
    stays_ensured(&stage, 1, "nothing is ensured").await;
    // It still listens.
    stage
        .change_service("web", annotation("mock.example/note", "a"))
        .await;
    ensured(&stage, 2, &Value::Null).await;
}

#[tokio::test]
async fn a_person_can_have_it_ensured_again() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.mock.lose_load_balancer("default/web").await;
    stage
        .change_service("web", annotation("outrigger.dev/resync", "1"))
        .await;
    ensured(&stage, 2, &Value::Null).await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    // An unchanged text is no news.
    stage
        .change_service("web", annotation("outrigger.dev/resync", "1"))
        .await;
    stage
        .change_service("web", annotation("outrigger.dev/resync", "2"))
        .await;
    ensured(&stage, 3, &Value::Null).await;
    stays_ensured(&stage, 3, "ensured once for each value").await;
}

#[tokio::test]
async fn a_service_that_is_paused_is_left_alone_until_it_is_not() {
    let paused = "outrigger.dev/paused";
    let stage = quick(&[]).start().await;
    let service = stage.create_service(annotated("web", paused, "true")).await;
    stage
        .service_that("web", "says that it is paused", |service| {
            condition(service, "Waiting") == ("True", "Paused")
        })
        .await;
    stage.only_events(&service, &["LoadBalancerPaused"]).await;
    stays_ensured(&stage, 0, "it is paused").await;
    assert_eq!(stage.patches_of("web").len(), 1, "it says so once");
    // Any other value than true holds nothing.
    stage
        .change_service("web", annotation(paused, "false"))
        .await;
    stage.served("web").await;
    stage
        .change_service("web", annotation(paused, "true"))
        .await;
    let change = json!({"spec": {"sessionAffinity": "ClientIP"}});
    stage.change_service("web", change).await;
    stays_ensured(&stage, 1, "a change waits").await;
    stage.delete_service("web").await;
    stays(
        "the deletion waits",
        Duration::from_millis(700),
        async || {
            let deleted = stage.mock.calls(DELETE).await;
            holds(deleted == 0, || "it is deleted".to_owned())
        },
    )
    .await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    let go_on = json!({"metadata": {"annotations": {paused: null}}});
    stage.change_service("web", go_on).await;
    stage.service_is_gone("web").await;
    stage.mock.has_none_of(uid(&service)).await;
}

/// Two owners, two hundred changes: the last one counts.
#[tokio::test]
async fn many_changes_in_a_row_end_with_the_last() {
    let stage = quick(&["--latency=20ms"]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    for port in 1000..1030 {
        let ports = json!([{"name": "http", "protocol": "TCP", "port": port}]);
        stage
            .change_service("web", json!({"spec": {"ports": ports}}))
            .await;
    }
    stage.sees_ports(uid(&service), &[1029]).await;
    stage.settled_service("web").await;
}
