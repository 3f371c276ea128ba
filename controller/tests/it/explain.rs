//! Why an object is as it is: `explain` asks the leader, and `replay` decides on its recording again.

use std::{collections::BTreeMap, env, fs, path::Path};

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
    wait::{holds, until},
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
async fn the_leader_explains_and_its_recording_is_decided_the_same_again() {
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
    let file = backstage.dir().join("decisions.jsonl");
    let file = file.to_str().unwrap().to_owned();
    let mut stage = backstage
        .flag("--authorization-always-allow-paths=/explain/*")
        .flag(&format!("--record={file}"))
        .start();
    let kubeconfig = stage.plane.kubeconfig("admin", Some("system:masters"));
    let kubeconfig = kubeconfig.unwrap();
    let says = async |object: &str, words: &[&str]| says(&port, &kubeconfig, object, words).await;

    // A Node that is initialised, with its writes.
    stage.mock.create(instance("made")).await;
    stage.register(&Machine::new("made")).await;
    stage.synced("made").await;
    says(
        "node/made",
        &["cloud-node-controller", "initialize", "removes the taint"],
    )
    .await;
    says("node/made", &["kube-apiserver", "PATCH ", "written"]).await;
    says("node/made", &["PATCH status", "written"]).await;
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
    let inputs = |decision: &Value| {
        decision["last"]["decision"]["initialize"]["node"]["metadata"]["name"] == "made"
    };
    assert!(decisions.iter().any(inputs), "{json:#}");

    for (object, code, why) in [
        ("node/unknown", 2, "node/unknown is unknown"),
        ("service/default/unknown", 2, "is unknown"),
        ("pod/x", 2, "no kind that is explained"),
        ("node/x/y", 2, "is no name"),
        ("service/x", 2, "is no name"),
    ] {
        let ran = explain(&port, &kubeconfig, &[object]).await;
        assert!(
            ran.code == Some(code) && ran.err.contains(why),
            "{object}: {ran:?}"
        );
    }
    let elsewhere = run(&["explain", "node/made", "--server=https://10.0.0.1:1"]).await;
    assert!(
        elsewhere
            .err
            .contains("--certificate-authority is required"),
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
    says("node/made", &["refresh", "in_sync"]).await;
    stage.mock.delete("made").await;
    stage.is_ready("made", "Unknown").await;
    says("node/made", &["judge", "look_again", "not deleted"]).await;
    says("node/made", &["judge", "delete", "within_limit"]).await;
    says("node/made", &["DELETE", "written"]).await;
    says("node/made", &["which is gone"]).await;

    stage.controller.terminate().await;
    let again = run(&["replay", &file]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    let end = again.out.lines().last().unwrap();
    assert!(end.contains(" 0 others now"), "{end}");
    assert!(again.out.contains("same "), "{again:?}");
    let recording = fs::read_to_string(&file).unwrap();
    bad_recordings(&recording, stage.dir()).await;
    if env::var_os("UPDATE_RECORDING").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/recording.jsonl");
        fs::write(path, shortened(&recording)).unwrap();
    }
}

/// A recording with two lines of each kind, rule and object.
fn shortened(recording: &str) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = recording.lines();
    let header = lines.next().map(|line| format!("{line}\n"));
    let few = lines.filter(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let count = counts.entry(format!(
            "{} {} {}",
            line["object"], line["kind"], line["rule"]
        ));
        let count = count.or_default();
        *count += 1;
        *count <= 2
    });
    header
        .into_iter()
        .chain(few.map(|line| format!("{line}\n")))
        .collect()
}

/// A changed decision is found, and a file that is none is refused.
async fn bad_recordings(recording: &str, dir: &Path) {
    let replay = async |text: &str| {
        let file = dir.join("changed.jsonl");
        fs::write(&file, text).unwrap();
        run(&["replay", "--quiet", file.to_str().unwrap()]).await
    };
    // The provider ID that was decided is another one than follows from the instance.
    let decided = r#""provider_id":"mock://"#;
    let (before, outcome) = recording
        .rsplit_once(r#""outcome":{"plan":{"change":{"#)
        .unwrap();
    let outcome = outcome.replacen(decided, r#""provider_id":"other://"#, 1);
    let changed = format!(r#"{before}"outcome":{{"plan":{{"change":{{{outcome}"#);
    assert_ne!(changed, recording);
    let ran = replay(&changed).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.out.contains("DIFFERS") && ran.out.contains("other://"),
        "{ran:?}"
    );

    let cut = &recording[..recording.len() - 10];
    let ran = replay(cut).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("is not complete"), "{ran:?}");
    let broken = recording.replacen("\"decision\":{", "\"decision\":{]", 1);
    let newer = recording.replacen("\"recording\":1", "\"recording\":99", 1);
    for (text, why) in [
        (&*broken, "is no decision"),
        (&*newer, "has format 99"),
        ("", "this is no recording"),
        ("nonsense\n", "this is no recording"),
    ] {
        let ran = replay(text).await;
        assert!(
            ran.code == Some(2) && ran.err.contains(why),
            "{why}: {ran:?}"
        );
    }
    let ran = run(&["replay", "/nowhere/x"]).await;
    assert!(
        ran.code == Some(2) && ran.err.contains("No such file"),
        "{ran:?}"
    );
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
    until("the metric counts", async || {
        let metrics = admin.get("/metrics").await.body;
        let bytes = metrics
            .lines()
            .find_map(|line| line.strip_prefix("outrigger_history_bytes "));
        let bytes: f64 = bytes.unwrap().parse().unwrap();
        holds(bytes > 0.0, || format!("{bytes}"))
    })
    .await;
}

/// A disk that is full ends the recording, and nothing else.
#[tokio::test]
async fn a_full_disk_ends_the_recording_alone() {
    let mut stage = Setup::mock(&["--synthesize-instances"])
        .flag("--record=/dev/full")
        .start()
        .await;
    stage.register(&Machine::new("made")).await;
    stage.synced("made").await;
    stage
        .controller
        .says(&["decisions are not recorded any more", "/dev/full"])
        .await;
    stage.register(&Machine::new("made-too")).await;
    stage.synced("made-too").await;
    assert_eq!(stage.controller.lines("not recorded any more"), 1);

    drop(stage);
    let backstage = Setup::without_provider().prepare().await;
    let (mut controller, log) = backstage.run(&["--record=/nowhere/file"]);
    let status = controller.ended().await;
    assert!(
        !status.success() && log().contains("--record /nowhere/file"),
        "{}",
        log()
    );
}
