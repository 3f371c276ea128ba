//! The example, as a process.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome as Wire;
use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::harness::{ask, channel, handshake, lookup};

const LIMIT: Duration = Duration::from_secs(20);

/// Cargo builds examples before it runs tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/minimal");
    assert!(
        path.exists(),
        "{} is missing: cargo build --examples",
        path.display()
    );
    path
}

fn command(args: &[&str], socket: &Path) -> Command {
    let mut command = Command::new(example());
    command.args(args).env(
        "CLOUDPROVIDER_ENDPOINT",
        format!("unix://{}", socket.display()),
    );
    command
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

async fn output(args: &[&str], socket: &Path) -> Output {
    tokio::time::timeout(LIMIT, command(args, socket).output())
        .await
        .unwrap()
        .unwrap()
}

async fn connect(socket: &Path) -> UnixStream {
    let connected = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            if let Ok(stream) = UnixStream::connect(socket).await {
                return stream;
            }
        }
    };
    tokio::time::timeout(LIMIT, connected)
        .await
        .expect("no process serves")
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

async fn ended(child: Child) -> Output {
    tokio::time::timeout(LIMIT, child.wait_with_output())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn the_example_serves_until_it_is_asked_to_end() {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("run/p.sock");
    for (args, end) in [(&[][..], Signal::TERM), (&["serve"][..], Signal::INT)] {
        let child = command(args, &socket).spawn().unwrap();
        let channel = channel(connect(&socket).await).await;
        assert_eq!(
            handshake(channel.clone(), 1, 1)
                .await
                .unwrap()
                .provider_name,
            "minimal"
        );
        let mut instances = InstancesServiceClient::new(channel);
        let answer = lookup(&mut instances, ask(&["node-a", "node-z"]))
            .await
            .unwrap();
        assert!(matches!(answer.results[0].outcome, Some(Wire::Found(_))));
        assert!(matches!(answer.results[1].outcome, Some(Wire::Absent(_))));

        signal(&child, end);
        // The connection is still open: it must not delay the end.
        let output = ended(child).await;
        assert!(output.status.success(), "{output:?}");
        assert!(!socket.exists());
        for line in String::from_utf8(output.stderr).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect(line);
            assert!(
                line["message"].is_string() && line["level"].is_string(),
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn the_probe_says_one_sentence_and_exits_accordingly() {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("p.sock");
    let sentence = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };

    let nobody = output(&["probe"], &socket).await;
    assert_eq!(nobody.status.code(), Some(1));
    assert!(sentence(nobody.stderr).starts_with("no provider serves unix://"));

    let child = command(&[], &socket).spawn().unwrap();
    connect(&socket).await;
    for args in [&["probe"][..], &["probe", "--ready"][..]] {
        let ready = output(args, &socket).await;
        assert_eq!(ready.status.code(), Some(0));
        assert!(sentence(ready.stdout).ends_with(" is ready\n"));
    }

    // A stopped process accepts connections and answers nothing.
    signal(&child, Signal::STOP);
    let silent = output(&["probe", "--timeout", "1"], &socket).await;
    assert_eq!(silent.status.code(), Some(1));
    assert!(sentence(silent.stderr).contains("did not answer within 1s"));
    signal(&child, Signal::CONT);
    signal(&child, Signal::TERM);
    assert!(ended(child).await.status.success());
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_is_refused_at_the_command_line() {
    let socket = PathBuf::from(format!("/{}", "x".repeat(150)));
    let refused = output(&[], &socket).await;
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("151 bytes"), "{text}");
}
