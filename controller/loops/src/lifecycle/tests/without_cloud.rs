//! Writes that need no call do not wait for one.

use super::*;

/// A stopped machine's node, with the taint.
async fn tainted() -> Fixture {
    let fixture = fleet(2, "Unknown", 0);
    fixture.cloud.set_power("n0", Power::Shutdown).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(taints(&fixture, "n0").contains(SHUTDOWN));
    fixture.refresh("n0");
    fixture
}

async fn loses_its_taint_at_once(fixture: &Fixture) {
    says(fixture, "n0", "True");
    sleep(Duration::from_secs(1)).await;
    assert!(
        !taints(fixture, "n0").contains(SHUTDOWN),
        "a ready node has the shutdown taint"
    );
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_taint_goes_from_a_ready_node_while_the_provider_is_away() {
    let fixture = tainted().await;
    fixture.wire.cut();
    sleep(MINUTE).await;
    loses_its_taint_at_once(&fixture).await;
    // The question about the other one is asked as soon as it can be.
    fixture.cloud.delete("n1").unwrap();
    sleep(MINUTE).await;
    fixture.wire.mend();
    sleep(MINUTE).await;
    assert!(!fixture.exists("n1") && fixture.exists("n0"));
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_taint_goes_from_a_ready_node_while_its_lookup_waits() {
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(MINUTE * 30);
    for effect in [Effect::Error(limited), Effect::Hang { duration: None }] {
        let fixture = tainted().await;
        fixture
            .cloud
            .inject(Fault::on(Method::BatchGetInstances, effect));
        sleep(MINUTE).await;
        loses_its_taint_at_once(&fixture).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_a_stop_that_another_client_adds_to_a_ready_node_is_answered_with_back_off() {
    let fixture = fleet(1, "True", 0);
    for _ in 0..2_000 {
        if !taints(&fixture, "n0").contains(SHUTDOWN) {
            fixture.cluster.change_node("n0", |node| {
                node["spec"]["taints"] = json!([{"key": SHUTDOWN, "effect": "NoSchedule"}]);
            });
        }
        fixture.refresh("n0");
        sleep(Duration::from_millis(10)).await;
    }
    let writes = fixture.api_writes();
    let is_patch = |write: &&String| write.starts_with("PATCH /api/v1/nodes/");
    let patches = writes.iter().filter(is_patch);
    assert_eq!(patches.count(), 3, "{writes:?}");
    assert!(
        fixture
            .events()
            .contains(&"OverwrittenByAnotherClient".to_owned()),
        "{writes:?}"
    );
}
