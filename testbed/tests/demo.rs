//! The demo as people run it. It builds the controller and the mock itself.

// Helpers of tests, too, fail by panicking.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::{
    collections::HashSet,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

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

#[tokio::test]
async fn once_shows_nodes_and_services_and_leaves_nothing() {
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
