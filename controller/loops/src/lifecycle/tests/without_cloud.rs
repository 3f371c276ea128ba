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
