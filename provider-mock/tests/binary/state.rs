//! State over a restart.

use std::path::Path;
use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome;

use crate::harness::{Served, within};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("n-{index}")).collect()
}

async fn saved(path: &Path, until: impl Fn(&str) -> bool) {
    let reached = async {
        while !std::fs::read_to_string(path).is_ok_and(|text| until(&text)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("saving", reached).await;
}

/// Kills while thousands of instances are made: whatever is in the file then is a whole state.
#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_whole_state() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let path = state.to_str().unwrap();
    let flags = [
        "--synthesize-instances",
        "--state",
        path,
        "--state-interval",
        "1ms",
    ];
    let mut least = 0;
    for round in 0..4 {
        let mock = Served::start(directory.path(), &flags).await;
        let held = mock.count("list", "instances").await;
        assert!(
            held >= least,
            "{held} of at least {least} instances are left"
        );
        least = held;
        let names = names(5_000);
        let asking = async {
            for batch in names.chunks(500).skip(round * 2) {
                if mock.ask(batch).await.is_err() {
                    return;
                }
            }
        };
        let killing = async {
            saved(&state, |text| text.matches("\"id\"").count() >= least + 500).await;
        };
        tokio::select! {
            () = asking => {}
            () = killing => {}
        }
        mock.kill().await;
    }
    let mock = Served::start(directory.path(), &flags).await;
    assert!(mock.count("list", "instances").await >= least);
    mock.terminate().await;
}

/// A Pod CIDR that a Node has must not become another instance's.
#[tokio::test]
async fn pod_cidrs_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let flags = [
        "--synthesize-instances",
        "--pod-cidrs",
        "10.244.0.0/22,fd00:10::/62",
        "--state",
        state.to_str().unwrap(),
    ];
    let mock = Served::start(directory.path(), &flags).await;
    mock.ask(&names(3)).await.unwrap();
    mock.ctl("create by-hand --pod-cidr 192.0.2.0/24").await;
    let before = mock.ctl("list").await;
    assert_eq!(before.matches("podCidrs").count(), 4);
    assert_eq!(before.matches("192.0.2.0/24").count(), 1);
    mock.terminate().await;

    let mock = Served::start(directory.path(), &flags).await;
    assert_eq!(mock.ctl("list").await, before);
    let results = mock.ask(&["n-9".to_owned()]).await.unwrap();
    let Some(Outcome::Found(instance)) = &results[0].outcome else {
        panic!("{results:?}")
    };
    assert_eq!(instance.pod_cidrs.len(), 2);
    for cidr in &instance.pod_cidrs {
        assert!(
            !before.contains(&format!("\"{cidr}\"")),
            "{cidr} was allocated twice"
        );
    }
    mock.terminate().await;
}
