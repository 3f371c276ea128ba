//! `spec.loadBalancerClass`: who serves what (S-10, S-44, S-45, Q-7; upstream's integration cases on
//! the class).

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{DELETE, ENSURE, FINALIZER, MADE, SETTLED, quick};
use crate::{
    cluster::services::{load_balancer, load_balancer_with},
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

/// S-10 and upstream's `Test_ServiceLoadBalancerEnableLoadBalancerClass`.
#[tokio::test]
async fn s10_an_undeclared_class_is_another_controllers() {
    let stage = quick(&[]).start().await;
    stage.create_service(of_class("theirs", OTHER)).await;
    let ours = stage.serve(load_balancer("ours")).await;
    left_alone(&stage, &["theirs"]).await;
    assert_eq!(stage.mock.owners().await, [uid(&ours)]);
}

/// Upstream's `…EnableLoadBalancerClassThenUpdateLoadBalancerClass`: the API server's own rule, on
/// which a part of ours rests.
#[tokio::test]
async fn the_class_of_a_service_cannot_change_as_long_as_it_is_of_that_type() {
    let stage = quick(&[]).start().await;
    stage.create_service(of_class("theirs", OTHER)).await;
    let change = json!({"spec": {"loadBalancerClass": FAST}});
    let services = stage.services();
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&change));
    let patched = services.patch("theirs", &parameters, &change).await;
    let error = patched.unwrap_err().to_string();
    assert!(error.contains("may not change once set"), "{error}");
}

#[tokio::test]
async fn classes_that_the_provider_declares_are_served() {
    let stage = quick(&[
        "--lb-class=mock.example/fast",
        "--lb-class=mock.example/slow",
    ])
    .start()
    .await;
    stage.create_service(of_class("theirs", OTHER)).await;
    let mut uids = Vec::new();
    for service in [
        of_class("fast", FAST),
        of_class("slow", "mock.example/slow"),
        load_balancer("plain"),
    ] {
        uids.push(uid(&stage.serve(service).await).to_owned());
    }
    left_alone(&stage, &["theirs"]).await;
    uids.sort_unstable();
    assert_eq!(stage.mock.owners().await, uids);
    stage.delete_service("fast").await;
    stage.service_is_gone("fast").await;
}

#[tokio::test]
async fn a_provider_of_classes_alone_leaves_services_without_one_to_others() {
    let stage = quick(&["--lb-class=mock.example/fast", "--lb-without-default-class"])
        .start()
        .await;
    stage.create_service(load_balancer("plain")).await;
    // The controller of another provider has left them like this.
    let held = json!({"metadata": {"finalizers": [FINALIZER]}});
    stage
        .create_service(load_balancer_with("held", held.clone()))
        .await;
    let mut turned = load_balancer_with("turned", held);
    turned["spec"]["type"] = "ClusterIP".into();
    stage.create_service(turned).await;
    stage.delete_service("held").await;
    let fast = stage.serve(of_class("fast", FAST)).await;
    left_alone(&stage, &["plain", "held", "turned"]).await;
    assert_eq!(stage.mock.owners().await, [uid(&fast)]);
    assert_eq!(stage.mock.calls(DELETE).await, 0);
}

/// S-44: a class is given by way of another type.
#[tokio::test]
async fn s44_a_service_that_went_over_to_another_class_loses_our_load_balancer() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    // Before any client can see that it was of another type.
    stage
        .change_service("web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let over = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": OTHER}});
    stage.change_service("web", over).await;
    stage
        .service_that("web", "is cleaned up", |service| {
            finalizers(service).is_empty() && condition_types(service).is_empty()
        })
        .await;
    stage.mock.has_none_of(uid(&service)).await;
    let left = stage.service("web").await;
    assert_eq!(annotation_of(&left, SETTLED), None);
    let written = stage.patches_of("web").len();
    stage
        .change_service("web", json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    stays("it is left alone", Duration::from_millis(700), async || {
        let now = stage.patches_of("web").len();
        holds(now == written, || {
            format!("{now} writes instead of {written}")
        })
    })
    .await;
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

/// S-45, Q-7: upstream tears down what another implementation has made.
#[tokio::test]
async fn q7_the_finalizer_alone_does_not_say_whose_a_service_is() {
    let stage = quick(&[]).start().await;
    let mut theirs = of_class("theirs", OTHER);
    theirs["metadata"]["finalizers"] = json!([FINALIZER]);
    stage.create_service(theirs).await;
    stage.delete_service("theirs").await;
    stage.serve(load_balancer("ours")).await;
    left_alone(&stage, &["theirs"]).await;
    assert_eq!(finalizers(&stage.service("theirs").await), [FINALIZER]);
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
