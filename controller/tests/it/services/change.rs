//! Changes of a Service that reach the cloud or do not: of its spec, its type, its class and the annotations for operators (S-10, S-13, S-20 to
//! S-22, S-44, S-45, Q-7).

use std::time::Duration;

use serde_json::{Value, json};

use super::{DELETE, ENSURE, FINALIZER, MADE, SETTLED, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer, load_balancer_with},
    look::{
        services::{addresses_of, annotation_of, condition, condition_types, finalizers},
        uid,
    },
    mock::Mock,
    plane::USER,
    replica::Replica,
    stage::{Backstage, Setup, Stage},
    wait::{holds, stays, until},
};

const FAST: &str = "mock.example/fast";

const OTHER: &str = "other.example/lb";

fn of_class(name: &str, class: &str) -> Value {
    load_balancer_with(name, json!({"spec": {"loadBalancerClass": class}}))
}

fn becomes(kind: &str) -> Value {
    json!({"spec": {"type": kind}})
}

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

/// Each field of S-21 and S-22 is in the tables of `core::service`.
#[tokio::test]
async fn s21_s22_what_a_load_balancer_is_made_of_is_ensured_when_it_changes_and_nothing_else_is() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    for change in [
        json!({"metadata": {"labels": {"example.com/team": "a"}}}),
        json!({"spec": {"selector": {"app": "other"}}}),
        json!({"spec": {"trafficDistribution": "PreferSameZone"}}),
        // Ours, for operators; and an annotation that the mock does not read.
        annotation("outrigger.dev/note", "x"),
        annotation("example.com/other", "x"),
    ] {
        stage.change_service("web", change).await;
    }
    stays_ensured(&stage, 1, "nothing is ensured").await;
    let changes = [
        json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}}),
        json!({"spec": {"ports": [
            {"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "protocol": "UDP"},
        ]}}),
        // With the port of its health check.
        json!({"spec": {"externalTrafficPolicy": "Local"}}),
        json!({"spec": {"loadBalancerIP": "198.18.7.7"}}),
        annotation("mock.example/anything", "else"),
        json!({"metadata": {"annotations": {"mock.example/anything": null}}}),
    ];
    for (times, change) in (2..).zip(changes) {
        stage.change_service("web", change.clone()).await;
        ensured(&stage, times, &change).await;
    }
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    assert_eq!(made.ports.len(), 2);
    assert!(addresses_of(&stage.served("web").await)[0].starts_with("198.18.7.7"));
    // An operator has it ensured again.
    stage.mock.lose_load_balancer("default/web").await;
    let resync = annotation("outrigger.dev/resync", "1");
    stage.change_service("web", resync.clone()).await;
    ensured(&stage, 8, &resync).await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    assert_eq!(stage.mock.calls(DELETE).await, 0);
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

/// S-20, S-40, S-44, S-71.
#[tokio::test]
async fn s44_a_change_of_type_takes_the_load_balancer_away_and_brings_it_back() {
    let stage = quick(&[]).start().await;
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let service = stage.serve(load_balancer_with("web", keep)).await;
    assert_eq!(finalizers(&service), ["example.com/keep", FINALIZER]);
    for (round, kind) in (1..).zip(["ClusterIP", "NodePort"]) {
        stage.change_service("web", becomes(kind)).await;
        let cleaned = stage
            .service_that("web", "is cleaned up", |service| {
                !finalizers(service).contains(&FINALIZER)
            })
            .await;
        // S-46: the others' stay.
        assert_eq!(finalizers(&cleaned), ["example.com/keep"]);
        assert_eq!(addresses_of(&cleaned), [""; 0]);
        assert_eq!(condition_types(&cleaned), [""; 0]);
        assert_eq!(annotation_of(&cleaned, SETTLED), None);
        stage.mock.has_none_of(uid(&service)).await;
        assert_eq!(stage.mock.changes().await, [round, 0, round]);
        stage.change_service("web", becomes("LoadBalancer")).await;
        stage.served("web").await;
        assert_eq!(stage.mock.owners().await, [uid(&service)]);
    }
    let gone = ["DeletingLoadBalancer", "DeletedLoadBalancer"];
    stage
        .only_events(&service, &[&MADE[..], &gone, &MADE, &gone, &MADE].concat())
        .await;
    stage.strip_service("web").await;
}

/// Watches that no write touches these, while a controller runs that could.
async fn left_alone(stage: &Stage, names: &[&str]) {
    stays(
        "they are left alone",
        Duration::from_millis(700),
        async || {
            for name in names {
                let writes = stage.writes_of(name);
                holds(writes.is_empty(), || format!("{writes:?}"))?;
            }
            Ok(())
        },
    )
    .await;
}

/// S-10, S-45, Q-7; upstream's `Test_ServiceLoadBalancerEnableLoadBalancerClass`. Upstream tears down what another
/// implementation has made.
#[tokio::test]
async fn q7_services_of_other_types_and_of_undeclared_classes_are_left_alone_whoever_holds_them() {
    let stage = quick(&["--lb-class=mock.example/fast", "--lb-without-default-class"])
        .start()
        .await;
    let mut service = load_balancer("inner");
    service["spec"]["type"] = "ClusterIP".into();
    stage.create_service(service).await;
    stage.create_service(of_class("theirs", OTHER)).await;
    stage.create_service(load_balancer("plain")).await;
    // The controller of another provider has left them like this.
    let held = json!({"metadata": {"finalizers": [FINALIZER]}});
    let service = load_balancer_with("held", held.clone());
    stage.create_service(service).await;
    let mut turned = load_balancer_with("turned", held);
    turned["spec"]["type"] = "ClusterIP".into();
    stage.create_service(turned).await;
    stage.delete_service("held").await;
    let fast = stage.serve(of_class("fast", FAST)).await;
    left_alone(&stage, &["inner", "theirs", "plain", "held", "turned"]).await;
    assert_eq!(finalizers(&stage.service("held").await), [FINALIZER]);
    assert_eq!(stage.mock.owners().await, [uid(&fast)]);
    assert_eq!(stage.mock.calls(DELETE).await, 0);
}

/// Only a Service's own end, or change, ends its load balancer: not a provider that starts without the
/// flag that names the class.
#[tokio::test]
async fn a_class_that_is_declared_no_longer_deletes_nothing() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state={}", state.path().join("state.json").display());
    let common = [&*state, "--state-interval=10ms", "--state-sync"];
    let with_class = [&common[..], &["--lb-class=mock.example/fast"]].concat();
    let mut stage = quick(&with_class).start().await;
    let fast = stage.serve(of_class("fast", FAST)).await;
    let doomed = stage.serve(of_class("doomed", FAST)).await;
    let plain = stage.serve(load_balancer("plain")).await;
    stage.mock.kill().await;
    stage.start_mock(&common).await;
    let held = stage
        .service_that("fast", "says that its class is not served", |service| {
            condition(service, "Waiting") == ("True", "ClassNotServed")
        })
        .await;
    assert_eq!(addresses_of(&held), addresses_of(&fast));
    let reasons = [&MADE[..], &["LoadBalancerClassNotServed"]].concat();
    stage.only_events(&fast, &reasons).await;
    // Nor after a start of the controller, nor for a user who changes something else.
    stage.restart_controller().await;
    stage
        .change_service("fast", json!({"spec": {"sessionAffinity": "ClientIP"}}))
        .await;
    stage.serve(load_balancer("probe")).await;
    assert_eq!(stage.mock.calls(DELETE).await, 0);
    let mut owners = [uid(&fast), uid(&doomed), uid(&plain)];
    owners.sort_unstable();
    let probe = stage.service("probe").await;
    let made = stage.mock.owners().await;
    let made: Vec<_> = made.iter().filter(|owner| **owner != uid(&probe)).collect();
    assert_eq!(made, owners.iter().collect::<Vec<_>>());
    stage.only_events(&fast, &reasons).await;
    // Its user may still delete it.
    stage.delete_service("doomed").await;
    stage.service_is_gone("doomed").await;
    stage.mock.has_none_of(uid(&doomed)).await;
    // The class is back, and so is the change.
    stage.mock.kill().await;
    stage.start_mock(&with_class).await;
    let back = stage
        .service_that("fast", "is served again", |service| {
            !condition_types(service).contains(&"outrigger.dev/Waiting")
        })
        .await;
    assert_eq!(addresses_of(&back), addresses_of(&fast));
    stage.mock.was_called(ENSURE, 1).await;
    assert_eq!(stage.mock.calls(DELETE).await, 0);
}

async fn cloud(backstage: &Backstage, name: &str, args: &[&str]) -> Replica {
    let mut replica = backstage
        .part(name)
        .without_provider()
        .user(USER)
        .flag("--leader-elect=false")
        .start()
        .await;
    let mut all = vec![format!("--provider-name={name}")];
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    replica.mock.start(&all).await;
    replica
}

/// Two clouds in one cluster: one has the Services without a class, the other those of its own.
#[tokio::test]
async fn each_of_two_controllers_has_its_own_services() {
    let backstage = Setup::default()
        .flag("--controllers=service-lb-controller")
        .machines(super::fleet(2))
        .prepare()
        .await;
    let red = cloud(&backstage, "red", &[]).await;
    let own = ["--lb-class=mock.example/fast", "--lb-without-default-class"];
    let blue = cloud(&backstage, "blue", &own).await;
    let plain = backstage.serve(load_balancer("plain")).await;
    let fast = backstage.serve(of_class("fast", FAST)).await;
    let turns = backstage.serve(load_balancer("turns")).await;
    let has = async |mock: &Mock, expected: &[&str]| {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        until("owners", async || {
            let owners = mock.owners().await;
            holds(owners == expected, || {
                format!("{owners:?} and not {expected:?}")
            })
        })
        .await;
    };
    has(&red.mock, &[uid(&plain), uid(&turns)]).await;
    has(&blue.mock, &[uid(&fast)]).await;
    // It moves house.
    backstage
        .change_service("turns", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let over = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": FAST}});
    backstage.change_service("turns", over).await;
    has(&red.mock, &[uid(&plain)]).await;
    has(&blue.mock, &[uid(&fast), uid(&turns)]).await;
    let moved = backstage
        .service_that("turns", "is held by its new provider", |service| {
            annotation_of(service, SETTLED).is_some_and(|record| record.starts_with("blue/"))
                && finalizers(service) == [FINALIZER]
        })
        .await;
    assert_eq!(uid(&moved), uid(&turns));
    for name in ["plain", "fast", "turns"] {
        backstage.delete_service(name).await;
        backstage.service_is_gone(name).await;
    }
    has(&red.mock, &[]).await;
    has(&blue.mock, &[]).await;
    assert!(
        red.writes_of("fast").is_empty(),
        "{:?}",
        red.writes_of("fast")
    );
    assert!(
        blue.writes_of("plain").is_empty(),
        "{:?}",
        blue.writes_of("plain")
    );
}
