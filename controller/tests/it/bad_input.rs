//! API servers and providers that are not there or are others, flags that cannot work, and objects that Go accepts and
//! that are odd.

use std::{fs, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use outrigger_api::v1;
use outrigger_testbed::{faults::FaultProxy, nodes::Machine};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::UnixListener, task::JoinSet};

use crate::{
    mock::Mock,
    rights::{ALWAYS, Rights},
    scripted::{Scripted, handshake},
    stage::{Backstage, Setup, Stage},
    wait::{holds, until},
};

const A_WHILE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn an_api_server_that_is_not_there_is_waited_for_and_keeps_no_process_from_ending() {
    let backstage = Setup::synthesizing().prepare().await;
    backstage.proxy.refuse_connections().await;
    let server = backstage.proxy.url();
    let mut stage = backstage.start();
    let sentence = "cannot use the API server";
    let line = stage.controller.says(&[sentence]).await;
    assert!(line.contains(&format!("server=\"{server}/\"")), "{line}");
    assert!(line.contains("Connection refused"), "{line}");
    assert!(line.contains("check --kubeconfig and --master"), "{line}");
    stage.restart_controller().await;
    let pid = stage.controller.pid();
    stage.register(&Machine::new("late")).await;
    until("the next process says it too", async || {
        let lines = stage.controller.lines(sentence);
        holds(lines == 2, || format!("{lines}"))
    })
    .await;
    stage.proxy.accept_connections().await;
    stage.synced("late").await;
    assert_eq!(stage.controller.lines(sentence), 2);
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn an_api_server_that_lets_us_do_nothing_is_asked_until_it_does() {
    let backstage = Setup::synthesizing()
        .machines([Machine::new("locked")])
        .prepare()
        .await;
    let proxy = FaultProxy::start_as(&backstage.plane, "outrigger-without-rights", None)
        .await
        .unwrap();
    let mut stage = backstage.start_with(&proxy.kubeconfig());
    let missing = "may not read the namespace kube-system";
    let line = stage.controller.says(&[missing]).await;
    assert!(line.contains("outrigger-without-rights"), "{line}");
    let rights = Rights::documented(ALWAYS).of("outrigger-without-rights");
    let some = Rights::documented(ALWAYS).of("outrigger-without-rights");
    some.without("nodes").grant(&stage.plane).await;
    let missing = "cannot watch resource \"nodes\"";
    let line = stage.controller.says(&[missing]).await;
    assert!(line.contains("outrigger-without-rights"), "{line}");
    rights.grant(&stage.plane).await;
    stage.synced("locked").await;
    stage.controller.pid();
    rights.revoke(&stage.plane).await;
}

/// Nothing happens to nodes until the right provider is there, and the process stays.
async fn heals(mut stage: Stage, before: impl AsyncFnOnce(&mut Stage)) {
    let pid = stage.controller.pid();
    stage.register(&Machine::new("waiting")).await;
    stage.untouched("waiting", A_WHILE).await;
    before(&mut stage).await;
    stage.start_mock(&["--synthesize-instances"]).await;
    stage.synced("waiting").await;
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_waited_for() {
    let mut stage = Setup::without_provider().start().await;
    let endpoint = Mock::endpoint(stage.dir());
    let sentence = format!("no provider answers at {endpoint}: ");
    let line = stage.controller.says(&["WARN", &sentence]).await;
    assert!(
        line.contains("is it running, and is this its endpoint?"),
        "{line}"
    );
    heals(stage, async |stage| {
        assert_eq!(stage.controller.lines(&sentence), 1);
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_speaks_something_else_is_not_fatal() {
    let backstage = Setup::without_provider().prepare().await;
    let socket = backstage.dir().join("provider.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut rude = JoinSet::new();
    rude.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream
                .write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nwhat?")
                .await;
        }
    });
    let mut stage = backstage.start();
    stage
        .controller
        .says(&["WARN", "provider down", "provider.sock"])
        .await;
    heals(stage, async |_| rude.shutdown().await).await;
}

#[tokio::test]
async fn n1_a_provider_without_instances_is_said_so_and_its_successor_is_asked() {
    let backstage = Setup::without_provider().prepare().await;
    let mut poor = handshake();
    poor.capabilities = Some(v1::Capabilities::default());
    let provider = Scripted::serve(backstage.dir(), poor, |_| unreachable!("not served"));
    let mut stage = backstage.start();
    stage
        .controller
        .says(&[
            "failed to start cloud node controller",
            "cloud provider does not support instances",
        ])
        .await;
    stage.register(&Machine::new("n1")).await;
    stage.untouched("n1", A_WHILE).await;
    drop(provider);
    stage.start_mock(&["--synthesize-instances"]).await;
    stage.synced("n1").await;
}

/// Runs the controller with these flags, which must end it, and returns what it says.
async fn refused(backstage: &Backstage, flags: &[&str]) -> String {
    let (mut controller, log) = backstage.run(flags);
    let status = controller.ended().await;
    assert_eq!(status.code(), Some(1), "{flags:?}: {}", log());
    log()
}

#[tokio::test]
async fn kubeconfigs_that_are_not_there_or_not_good() {
    let backstage = Setup::without_provider().prepare().await;
    let good = fs::read_to_string(backstage.proxy.kubeconfig()).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let files = [
        ("empty", String::new()),
        ("words", "this is not a kubeconfig".to_owned()),
        ("broken", "clusters: [".to_owned()),
        (
            "no-context",
            good.replace("current-context", "other-context"),
        ),
    ];
    let missing = backstage.dir().join("missing.kubeconfig");
    let mut paths = vec![missing, backstage.dir().to_owned()];
    for (name, text) in files {
        let path = backstage.dir().join(name);
        fs::write(&path, text).unwrap();
        paths.push(path);
    }
    for path in paths {
        let flag = format!("--kubeconfig={}", path.display());
        let said = refused(&backstage, &[&flag]).await;
        let sentence = format!("--kubeconfig {}: ", path.display());
        let lines: Vec<_> = said
            .lines()
            .filter(|line| line.contains(&sentence))
            .collect();
        assert_eq!(lines.len(), 1, "{}: {said}", path.display());
        assert!(!said.contains("panicked"), "{said}");
        assert!(!json(&said));
    }
}

#[tokio::test]
async fn no_kubeconfig_outside_of_a_cluster_and_a_master_that_is_no_url() {
    let backstage = Setup::without_provider().prepare().await;
    let said = refused(&backstage, &["--kubeconfig="]).await;
    assert!(
        said.contains("invalid configuration: no configuration has been provided"),
        "{said}"
    );
    let said = refused(&backstage, &["--master=somewhere"]).await;
    assert!(
        said.contains("--master \"somewhere\" is not a URL"),
        "{said}"
    );
}

#[tokio::test]
async fn a_cloud_without_a_cluster_id_ends_it_unless_that_is_allowed() {
    let backstage = Setup::mock(&["--synthesize-instances", "--without-cluster-id"])
        .flag("--allow-untagged-cloud")
        .prepare()
        .await;
    let (mut controller, log) = backstage.run(&[]);
    let status = controller.ended().await;
    assert_eq!(status.code(), Some(255), "{}", log());
    let sentence = "no ClusterID found.  A ClusterID is required for the cloud provider to \
                    function properly.  This check can be bypassed by setting the \
                    allow-untagged-cloud option";
    assert_eq!(
        log().lines().filter(|line| line.contains(sentence)).count(),
        1,
        "{}",
        log()
    );
    backstage.proxy.take_requests();
    let mut stage = backstage.start();
    let warning = "detected a cluster without a ClusterID.  A ClusterID will be required";
    stage.controller.says(&["WARN", warning]).await;
    stage.register(&Machine::new("untagged")).await;
    stage.synced("untagged").await;
}

/// Nodes as JSON: the types of these tests do not hold such times either.
fn nodes(stage: &Stage) -> Api<DynamicObject> {
    Api::all_with(stage.admin(), &ApiResource::erase::<Node>(&()))
}

fn odd(kind: &str, time: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "Odd", "message": "odd",
        "lastTransitionTime": time,
    })
}

/// Writes a condition as a kubelet does about its own node.
async fn report(stage: &Stage, name: &str, condition: Value) {
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let parameters = PatchParams::default();
    let written = nodes(stage).patch_status(name, &parameters, &patch).await;
    written.unwrap();
}

async fn untainted(stage: &Stage, name: &str) {
    until(&format!("{name} is initialised"), async || {
        let node = nodes(stage).get(name).await.unwrap();
        let taints = node.data["spec"]["taints"].to_string();
        holds(!taints.contains("uninitialized"), || taints)
    })
    .await;
}

#[tokio::test]
async fn a_time_of_the_year_9999_stops_no_node() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("before")).await;
    stage.synced("before").await;
    for (name, kind, time) in [
        ("odd-a", "Clock", "9999-12-31T23:59:59Z"),
        ("odd-b", "Ready", "9999-12-31T23:59:59Z"),
        // The year 10000 in UTC.
        ("odd-c", "Clock", "9999-12-31T23:59:59-10:00"),
        // The year before 0.
        ("odd-d", "Clock", "0000-01-01T00:00:00+10:00"),
    ] {
        stage.register(&Machine::new(name)).await;
        report(&stage, name, odd(kind, time)).await;
        // A time whose year has not four digits in UTC keeps the API server itself from patching.
        if time.ends_with('Z') {
            untainted(&stage, name).await;
        }
    }
    stage.register(&Machine::new("after")).await;
    stage.synced("after").await;

    // A start begins with a list of all of them.
    stage.restart_controller().await;
    stage.register(&Machine::new("again")).await;
    stage.synced("again").await;
    assert_eq!(stage.controller.lines("cannot be decoded"), 0);
}
