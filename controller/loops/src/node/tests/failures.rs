//! Lookups and writes that fail.

use serde_json::Value;

use super::*;

#[tokio::test(start_paused = true)]
async fn n21_a_status_write_that_fails_is_repeated_and_the_event_comes_once() {
    let fixture = start();
    fixture.cluster.refuse("/status", 500, 3);
    fixture.register(node("n1"));
    fixture.until_events(1).await;
    let addresses = fixture.live("n1")["status"]["addresses"]
        .as_array()
        .unwrap()
        .len();
    assert!(addresses > 1, "{addresses}");
    fixture.settle().await;
    let synced = fixture
        .api_writes()
        .iter()
        .filter(|write| *write == "POST Synced")
        .count();
    assert_eq!(synced, 1);
    let taken = |write: &&String| *write == "PATCH /api/v1/nodes/n1";
    assert_eq!(fixture.api_writes().iter().filter(taken).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_429_of_the_api_server_delays_the_write_and_repeats_no_lookup() {
    let fixture = start();
    fixture.cluster.refuse("/nodes/n", 429, usize::MAX);
    for n in 0..10 {
        fixture.register(node(&format!("n{n}")));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lookups = fixture.calls("BatchGetInstances");
    tokio::time::sleep(Duration::from_secs(39)).await;
    fixture.cluster.accept();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(fixture.calls("BatchGetInstances"), lookups);
    assert_eq!(fixture.events(), ["Synced"; 10]);
    let is_patch = |write: &&String| write.starts_with("PATCH");
    let writes = fixture.api_writes().iter().filter(is_patch).count();
    // Six or seven tries and two writes for each.
    assert!(writes <= 90, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_a_policy_refuses_backs_off_and_the_node_names_the_policy() {
    let fixture = start();
    fixture.cluster.refuse("/nodes/n1", 422, usize::MAX);
    fixture.register(node("n1"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let mut tries = fixture.api_writes();
    tries.retain(|write| write.starts_with("PATCH"));
    assert_eq!(tries, ["PATCH /api/v1/nodes/n1"; 4]);
    assert_eq!(fixture.events(), ["FailedToInitialize"]);
    let said = fixture.cluster.event_messages();
    assert_eq!(said, [format!("failed to write the node: {POLICY}")]);
}

/// The node is read once, then the queue waits: a write that never fits is no storm.
#[tokio::test(start_paused = true)]
async fn n20_a_write_that_conflicts_is_planned_once_more_in_each_run() {
    let fixture = start();
    fixture.cluster.refuse("/nodes/n1", 409, usize::MAX);
    fixture.register(node("n1"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let requests = fixture.cluster.requests();
    let of = |method: &str| requests.iter().filter(|r| r.starts_with(method)).count();
    let (reads, writes) = (of("GET"), of("PATCH"));
    // In both of its forms each time.
    assert_eq!(writes, reads * 4, "{requests:?}");
    assert!((10..20).contains(&reads), "{requests:?}");
    assert_eq!(fixture.events(), [""; 0]);
}

/// A Node that waits for longer than a cloud takes to show a new instance says why, and not with each try.
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_uninitialized_says_why() {
    let fixture = start_in(cloud(|_| {}));
    fixture.register(node("n1"));
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert!(fixture.calls("BatchGetInstances") > 5);
    assert!(fixture.events().is_empty(), "{:?}", fixture.events());

    fixture.until_events(1).await;
    assert_eq!(fixture.events(), ["FailedToInitialize"]);
    let said = fixture.cluster.event_messages();
    assert_eq!(
        said,
        [
            "failed to get instance metadata: instance not found: no instance named \"n1\" (compare the Node's name with the cloud's)"
        ]
    );
    let calls = fixture.calls("BatchGetInstances");
    for n in 0..20 {
        let label = |node: &mut Value| node["metadata"]["labels"]["n"] = json!(n.to_string());
        fixture.cluster.change_node("n1", label);
        fixture.refresh("n1");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(fixture.calls("BatchGetInstances") >= calls + 20);
    assert_eq!(fixture.events(), ["FailedToInitialize"]);

    fixture.create("n1");
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(fixture.events().last().unwrap(), "Synced");
}

/// Calls that pause concern every Node alike.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_away_makes_no_events_about_nodes() {
    let fixture = start();
    let error = InjectedError::new(tonic::Code::Unavailable).with_reason("CLOUD_UNAVAILABLE");
    let fault = Fault::on(Method::BatchGetInstances, Effect::Error(error));
    fixture.cloud.inject(fault);
    fixture.register(node("n1"));
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(fixture.calls("BatchGetInstances") > 2);
    assert!(fixture.events().is_empty(), "{:?}", fixture.events());
}
