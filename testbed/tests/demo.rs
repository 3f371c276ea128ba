//! The demo as people run it. It builds the controller and the mock itself.

// Helpers of tests, too, fail by panicking.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::{
    collections::HashSet,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use kube::Client;
use outrigger_testbed::{
    nodes::{self, Machine},
    shared,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

/// A demo whose scratch directories lie in a separate directory.
struct Demo {
    command: Command,
    scratch: TempDir,
}

impl Demo {
    fn new(args: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger-demo"));
        command
            .args(args)
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self { command, scratch }
    }

    async fn output(&mut self) -> Output {
        // A first build lasts minutes.
        let output = timeout(Duration::from_mins(30), self.command.output());
        output.await.unwrap().unwrap()
    }

    /// Starts it and waits for its JSON document.
    async fn start(&mut self) -> (Child, Value) {
        let mut child = self.command.stderr(Stdio::inherit()).spawn().unwrap();
        let document = timeout(
            Duration::from_mins(30),
            document(child.stdout.as_mut().unwrap()),
        );
        let document = document.await.unwrap();
        (child, document)
    }

    /// Waits until nothing that names the scratch directory runs, and it is empty.
    async fn assert_nothing_left(&self) {
        let path = self.scratch.path();
        let gone = async {
            while !processes_with(path).is_empty() || !is_empty(path) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = timeout(Duration::from_secs(20), gone).await;
        in_time.unwrap_or_else(|_| panic!("left: {:?}", processes_with(path)));
    }
}

async fn document(stdout: impl AsyncRead + Unpin) -> Value {
    let mut lines = BufReader::new(stdout).lines();
    let mut text = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        text.push_str(&line);
        if line == "}" {
            break;
        }
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// The command lines of the running processes that name `path`.
fn processes_with(path: &Path) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(path.to_str().unwrap()))
        .collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_initialised(document: &Value, count: usize) {
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), count);
    for node in nodes {
        let name = node["name"].as_str().unwrap();
        let provider_id = node["providerID"].as_str().unwrap();
        assert!(provider_id.starts_with("mock://"), "{node}");
        assert_eq!(node["instanceType"], "mock.medium", "{node}");
        assert!(
            node["zone"].as_str().unwrap().starts_with("mock-1"),
            "{node}"
        );
        let addresses = node["addresses"].as_array().unwrap();
        let types: Vec<_> = addresses.iter().map(|address| &address["type"]).collect();
        assert!(types.iter().any(|type_| *type_ == "InternalIP"), "{node}");
        let hostname = addresses
            .iter()
            .find(|address| address["type"] == "Hostname");
        assert_eq!(hostname.unwrap()["address"], name, "{node}");
        let seconds = node["secondsToInitialise"].as_f64().unwrap();
        assert!((0.0..120.0).contains(&seconds), "{node}");
    }
}

fn assert_routed(document: &Value) {
    let nodes = document["nodes"].as_array().unwrap();
    let cidrs = nodes
        .iter()
        .flat_map(|node| node["podCIDRs"].as_array().unwrap());
    let cidrs: HashSet<_> = cidrs.map(|cidr| cidr.as_str().unwrap()).collect();
    assert_eq!(cidrs.len(), nodes.len());
    for node in nodes {
        assert_eq!(node["networkUnavailable"], "False", "{node}");
    }
}

fn assert_reachable(document: &Value, count: usize) {
    let services = document["services"].as_array().unwrap();
    assert_eq!(services.len(), count);
    for service in services {
        let addresses = service["addresses"].as_array().unwrap();
        assert!(!addresses.is_empty(), "{service}");
        let conditions = service["conditions"].as_array().unwrap();
        let provisioned = conditions
            .iter()
            .find(|condition| condition["type"] == "outrigger.dev/Provisioned");
        assert_eq!(provisioned.unwrap()["status"], "True", "{service}");
        let seconds = service["secondsToAddress"].as_f64().unwrap();
        assert!((0.0..120.0).contains(&seconds), "{service}");
    }
}

fn assert_labelled(document: &Value) {
    let volumes = document["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 1);
    let [zone, region] = ["zone", "region"].map(|name| format!("topology.kubernetes.io/{name}"));
    let labels = serde_json::json!({&*zone: "mock-1a", &*region: "mock-1"});
    assert_eq!(volumes[0]["labels"], labels);
    let affinity = [format!("{region} In mock-1"), format!("{zone} In mock-1a")];
    assert_eq!(volumes[0]["nodeAffinity"], serde_json::json!(affinity));
    let seconds = volumes[0]["secondsToLabels"].as_f64().unwrap();
    assert!((0.0..120.0).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn once_shows_nodes_services_and_a_volume_and_leaves_nothing() {
    let mut demo = Demo::new(&["--once", "--nodes", "5", "--services", "2", "--json"]);
    let output = demo.output().await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(is_empty(demo.scratch.path()));
    assert_eq!(processes_with(demo.scratch.path()), [""; 0]);
    // Nothing but the document.
    let document = serde_json::from_slice(&output.stdout).unwrap();
    assert_initialised(&document, 5);
    assert_routed(&document);
    assert_reachable(&document, 2);
    assert_labelled(&document);
}

#[tokio::test]
async fn a_demo_that_is_killed_leaves_nothing() {
    let mut demo = Demo::new(&["--nodes", "1", "--json"]);
    let (mut child, document) = demo.start().await;
    let running = processes_with(demo.scratch.path());
    assert!(
        running.iter().any(|line| line.contains("serve")),
        "{running:?}"
    );
    assert!(Path::new(document["kubeconfig"].as_str().unwrap()).is_file());
    child.kill().await.unwrap();
    demo.assert_nothing_left().await;
}

#[tokio::test]
async fn in_an_existing_cluster_only_its_own_nodes_come_and_go() {
    let plane = shared().await.unwrap();
    let client = plane.client().unwrap();
    let theirs = Machine::new("theirs").initialized();
    nodes::register(&client, &theirs).await.unwrap();
    let kubeconfig = plane.admin_kubeconfig().unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();

    let mut demo = Demo::new(&["--nodes", "2", "--json", "--kubeconfig", kubeconfig]);
    let (mut child, document) = demo.start().await;
    assert_initialised(&document, 2);
    // Another process may serve them there.
    assert_reachable(&document, 0);
    assert_eq!(document["volumes"], serde_json::json!([]));
    assert_eq!(document["kubeconfig"], kubeconfig);
    assert_eq!(all_nodes(&client).await.len(), 3);
    terminate(&child);
    assert!(child.wait().await.unwrap().success());
    demo.assert_nothing_left().await;
    assert_eq!(all_nodes(&client).await, ["theirs"]);

    // It would be initialised, with made-up data.
    let waiting = Machine::new("waiting");
    nodes::register(&client, &waiting).await.unwrap();
    let output = Demo::new(&["--once", "--kubeconfig", kubeconfig])
        .output()
        .await;
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("1 node of this cluster waits"), "{text}");
    assert!(text.contains("(waiting)"), "{text}");
    assert_eq!(all_nodes(&client).await, ["theirs", "waiting"]);
}

async fn all_nodes(client: &Client) -> Vec<String> {
    nodes::names(client, "").await.unwrap()
}

fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    kill_process(pid.unwrap(), Signal::TERM).unwrap();
}

#[tokio::test]
async fn a_bad_kubeconfig_is_reported_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let kubeconfig = path.to_str().unwrap();
    for (content, said) in [
        (None, "cannot use --kubeconfig"),
        (Some("clusters: ["), "failed to parse"),
        (
            Some(NOBODY_LISTENS),
            "cannot reach the API server https://127.0.0.1:1/",
        ),
    ] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let mut demo = Demo::new(&["--once", "--kubeconfig", kubeconfig]);
        let output = demo.output().await;
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(text.contains(said), "{text}");
        assert!(text.contains(kubeconfig), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(is_empty(demo.scratch.path()));
    }
}

const NOBODY_LISTENS: &str = "
apiVersion: v1
kind: Config
current-context: demo
contexts: [{name: demo, context: {cluster: demo, user: demo}}]
clusters: [{name: demo, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: demo, user: {}}]
";
