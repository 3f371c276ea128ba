//! Why an object is as it is: `explain` asks the leader.

use std::path::Path;

use http::Method;
use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::nodes::Machine;
use serde_json::Value;
use tokio::process::Command;
use tonic::Code;

use crate::{
    caller::Port,
    cluster::services::load_balancer,
    controller::{Ran, program},
    mock::{
        instance,
        load_balancers::{about, error},
    },
    replica::Replica,
    stage::{Backstage, Setup},
    wait::until,
};

async fn run(args: &[&str]) -> Ran {
    Ran::of(Command::new(program()).args(args).env_clear()).await
}

async fn explain(port: &Port, kubeconfig: &Path, args: &[&str]) -> Ran {
    let server = format!("--server=https://127.0.0.1:{}", port.number());
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    run(&[&["explain", &server, &kubeconfig], args].concat()).await
}

/// Waits until the explanation of `object` has a line with all of `words`, and returns the line.
async fn says(port: &Port, kubeconfig: &Path, object: &str, words: &[&str]) -> String {
    until(&format!("{object} is explained by {words:?}"), async || {
        let ran = explain(port, kubeconfig, &[object]).await;
        let mut lines = ran.out.lines();
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned).ok_or_else(|| format!("{ran:?}"))
    })
    .await
}

#[tokio::test]
async fn the_leader_explains_by_rules_and_sentences() {
    let port = Port::reserve();
    let backstage = Setup::mock(&["--visibility-delay=0s"])
        .flags(&[
            "--node-monitor-period=200ms",
            "--node-status-update-frequency=1s",
            "--load-balancer-update-idle=100ms",
        ])
        .scraped_at(&port)
        .prepare()
        .await;
    let stage = backstage
        .flag("--authorization-always-allow-paths=/explain/*")
        .start();
    let kubeconfig = stage.plane.kubeconfig("admin", Some("system:masters"));
    let kubeconfig = kubeconfig.unwrap();
    let says = async |object: &str, words: &[&str]| says(&port, &kubeconfig, object, words).await;

    // A Node that is initialised.
    stage.mock.create(instance("made")).await;
    stage.register(&Machine::new("made")).await;
    stage.synced("made").await;
    says(
        "node/made",
        &["cloud-node-controller", "initialize", "removes the taint"],
    )
    .await;
    // A Node whose taint stays.
    stage.register(&Machine::new("lost")).await;
    says("node/lost", &["sync", "not_ready", "instance not found"]).await;
    // A Service whose provider refuses.
    let refused = error(
        Code::FailedPrecondition,
        "DEPENDENCY_NOT_READY",
        "no such flavour",
    );
    let refused = about(
        outrigger_provider_mock::faults::Method::EnsureLoadBalancer,
        "refused",
        Effect::Error(refused),
    );
    stage.mock.inject(refused).await;
    stage.create_service(load_balancer("refused")).await;
    says(
        "service/default/refused",
        &["next_step", "new", "EnsureLoadBalancer"],
    )
    .await;
    says(
        "svc/default/refused",
        &["ensure", "not_ready", "no such flavour"],
    )
    .await;

    let json = explain(&port, &kubeconfig, &["node/made", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json["object"], &json["exists"]),
        (&"node/made".into(), &true.into())
    );
    let decisions = json["decisions"].as_array().unwrap();
    let initialized = |decision: &Value| {
        let (rule, text) = (&decision["rule"], decision["text"].as_str());
        rule == "initialize" && text.is_some_and(|text| text.contains("removes the taint"))
    };
    assert!(decisions.iter().any(initialized), "{json:#}");

    for (object, code, why) in [
        ("node/unknown", 2, "node/unknown is unknown"),
        ("service/default/unknown", 2, "is unknown"),
        ("pod/x", 2, "no kind that is explained"),
        ("node/x/y", 2, "an object is nodes/NAME"),
        ("service/x", 2, "an object is nodes/NAME"),
    ] {
        let ran = explain(&port, &kubeconfig, &[object]).await;
        assert!(
            ran.code == Some(code) && ran.err.contains(why),
            "{object}: {ran:?}"
        );
    }
    let elsewhere = run(&["explain", "node/made", "--server=https://10.0.0.1:1"]).await;
    assert!(
        elsewhere.err.contains("is no URL on this machine"),
        "{elsewhere:?}"
    );

    // A load balancer that gets its nodes, and goes.
    stage.create_service(load_balancer("served")).await;
    stage.served("served").await;
    stage.mock.create(instance("more")).await;
    stage.register(&Machine::new("more")).await;
    says(
        "svc/default/served",
        &["update", "ready", "the provider answers Ready"],
    )
    .await;
    stage.delete_service("served").await;
    says("svc/default/served", &["delete", "absent"]).await;
    // A Node whose machine goes is still explained.
    says("node/made", &["plan", "in_sync"]).await;
    stage.mock.delete("made").await;
    stage.is_ready("made", "Unknown").await;
    says("node/made", &["judge", "look_again", "not deleted"]).await;
    says("node/made", &["judge", "delete", "within_limit"]).await;
    says("node/made", &["which is gone"]).await;
}

impl Replica {
    async fn explain(&self, cluster: &Backstage, user: &str, group: Option<&str>) -> Ran {
        let kubeconfig = cluster.plane.kubeconfig(user, group).unwrap();
        explain(&self.port, &kubeconfig, &["node/own"]).await
    }
}

#[tokio::test]
async fn a_standby_says_who_leads_and_a_caller_without_rights_what_to_grant() {
    let cluster = Setup::without_provider().prepare().await;
    let mut leader = cluster.replica("leading").await;
    leader.leads().await;
    let mut standby = cluster.replica("standing-by").await;
    standby.follows(&mut leader).await;
    leader.own_node(&cluster, "own").await;
    cluster.synced("own").await;
    let admins = Some("system:masters");

    let led = leader.explain(&cluster, "admin", admins).await;
    assert!(
        led.code == Some(0) && led.out.contains("initialize"),
        "{led:?}"
    );
    let stood = standby.explain(&cluster, "admin", admins).await;
    let holder = leader.identity().await;
    let says = format!("this replica does not lead; {holder} does");
    assert!(
        stood.code == Some(2) && stood.err.contains(&says),
        "{stood:?}"
    );
    let refused = leader.explain(&cluster, "without-rights", None).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in [
        "User \"without-rights\" cannot get path \"/explain/nodes/own\"",
        "--non-resource-url='/explain/*'",
    ] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    let anyone = leader.port.anonymous();
    assert_eq!(anyone.code("/explain/nodes/own").await, 403);
    let admin = leader
        .port
        .with_certificate(&cluster.plane, "admin", admins);
    let admin = admin.await;
    let posted = admin.ask(Method::POST, "/explain/nodes/own", "").await;
    assert_eq!(posted.code, 405);
    assert_eq!(admin.code("/explain/pods/own").await, 400);
}
