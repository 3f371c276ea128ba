//! Another client undoes what the loop has written to a Node, whenever it sees it.

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::*;

/// The other client watches the Node for some seconds, and the watch brings what it does.
async fn undoing(fixture: &Fixture, seconds: u64, undo: impl Fn(&mut Value)) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let mut undone = fixture.live("n1");
        let settled = undone.clone();
        undo(&mut undone);
        if undone != settled {
            // Our write first.
            fixture.refresh("n1");
            fixture.cluster.change_node("n1", |node| undo(node));
            fixture.refresh("n1");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn writes(fixture: &Fixture) -> usize {
    let writes = fixture.api_writes();
    writes
        .iter()
        .filter(|write| write.starts_with("PATCH /api/v1/nodes/"))
        .count()
}

async fn initialized() -> Fixture {
    let fixture = start();
    fixture.register(node("n1"));
    fixture.initialized("n1").await;
    fixture.until_events(1).await;
    fixture
}

fn taint(node: &mut Value) {
    let taints = json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]);
    if !node["spec"]["taints"].to_string().contains(UNINITIALIZED) {
        node["spec"]["taints"] = taints;
    }
}

/// The first time it is initialised again, as an operator may want; then the taint alone goes.
#[tokio::test(start_paused = true)]
async fn a_taint_that_another_client_adds_again_is_answered_with_back_off_and_without_lookups() {
    let fixture = initialized().await;
    let (before, lookups) = (writes(&fixture), fixture.calls("BatchGetInstances"));
    undoing(&fixture, 20, taint).await;
    assert_eq!(writes(&fixture) - before, 3, "{:?}", fixture.api_writes());
    assert_eq!(fixture.calls("BatchGetInstances") - lookups, 1);
    let events = fixture.events();
    assert!(
        events.contains(&"OverwrittenByAnotherClient".to_owned()),
        "{events:?}"
    );
    // It ends, and so does the taint.
    sleep(Duration::from_secs(30)).await;
    assert!(
        !fixture.live("n1")["spec"]["taints"]
            .to_string()
            .contains(UNINITIALIZED)
    );
}

/// N-37.
#[tokio::test(start_paused = true)]
async fn a_label_that_another_client_undoes_is_answered_with_back_off() {
    let fixture = initialized().await;
    let before = writes(&fixture);
    let undo = |node: &mut Value| {
        node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = json!("a");
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("b");
    };
    undoing(&fixture, 20, undo).await;
    assert_eq!(writes(&fixture) - before, 3, "{:?}", fixture.api_writes());
    let events = fixture.events();
    assert!(
        events.contains(&"OverwrittenByAnotherClient".to_owned()),
        "{events:?}"
    );
}

/// A kubelet that writes its own addresses all the time: sweeps put them right, and load balancers do not follow.
#[tokio::test(start_paused = true)]
async fn the_second_sweep_that_puts_addresses_right_names_who_writes_them() {
    let fixture = initialized().await;
    let own = |node: &mut Value| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.0.2.66"}]);
    };
    for warnings in [0, 1] {
        fixture.cluster.change_node("n1", own);
        fixture.refresh("n1");
        sleep(PERIOD + Duration::from_secs(20)).await;
        let events = fixture.events();
        let named = events
            .iter()
            .filter(|one| *one == "OverwrittenByAnotherClient");
        assert_eq!(named.count(), warnings, "{events:?}");
    }
}
