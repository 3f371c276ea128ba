//! Lookups and writes that fail, and nothing that stays of a Node that is gone, or of a term that has not begun.

use outrigger_provider_mock::{faults::BadAnswer, instances::InstanceSpec};
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::{ipam, lifecycle, queue::Queue};
use outrigger_kube::fixture::settled;

#[tokio::test(start_paused = true)]
async fn n21_a_status_write_that_fails_is_repeated_and_the_event_comes_once() {
    let fixture = start();
    fixture.cluster.refuse("/status", 500, 3);
    fixture.register(node("n1"));
    fixture.until_events(1).await;
    fixture.settle().await;
    let addresses = fixture.live("n1")["status"]["addresses"]
        .as_array()
        .unwrap()
        .len();
    assert!(addresses > 1, "{addresses}");
    assert_eq!(fixture.calls("BatchGetInstances"), 1);
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

/// A machine of this name, and its provider ID.
fn machine(fixture: &Fixture, name: &str) -> String {
    let spec = InstanceSpec::named(name.parse().unwrap());
    let instance = fixture.cloud.create(spec).unwrap();
    fixture.cloud.provider_id(&instance.id)
}

/// Its machine registers under the right name in the meantime.
#[tokio::test(start_paused = true)]
async fn a_node_that_goes_during_its_lookup_claims_nothing() {
    let fixture = start_in(cloud(|config| config.latency = Duration::from_secs(5)));
    let id = machine(&fixture, "short-0");
    fixture.register(node("short-0"));
    sleep(Duration::from_secs(3)).await;
    fixture.vanish("short-0");
    fixture.asked(1).await;
    let mut renamed = node("short-0.example.com");
    renamed["spec"]["providerID"] = json!(id);
    fixture.register(renamed);
    fixture.initialized("short-0.example.com").await;
    fixture.until_events(1).await;
    assert_eq!(fixture.events(), ["Synced"]);
}

/// Its own back-off has grown to many minutes by then.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_refused_runs_at_once_when_the_other_goes() {
    let fixture = start();
    fixture.register(node("n1"));
    fixture.initialized("n1").await;
    let mut twin = node("n2");
    twin["spec"]["providerID"] = fixture.live("n1")["spec"]["providerID"].clone();
    fixture.register(twin);
    sleep(Duration::from_hours(1)).await;
    fixture.vanish("n1");
    sleep(Duration::from_secs(1)).await;
    let taints = fixture.live("n2")["spec"]["taints"].to_string();
    assert!(!taints.contains("uninitialized"), "{taints}");
}

/// The cloud names the zone in its IDs; a client that registers a Node may leave it out.
#[tokio::test(start_paused = true)]
async fn a_machine_is_one_nodes_however_its_id_is_spelled() {
    let mut twin = node("twin");
    twin["spec"]["providerID"] = json!("mock://i-1");
    let old = settled("twin", "mock://i-1", "True");
    for (first, second, loser) in [
        (node("n1"), twin, "twin"),
        // Found by a sweep.
        (old, node("n1"), "n1"),
    ] {
        let fixture = start_in(cloud(|_| {}));
        let spec = InstanceSpec {
            id: Some("i-1".parse().unwrap()),
            ..InstanceSpec::named("n1".parse().unwrap())
        };
        fixture.cloud.create(spec).unwrap();
        let answer = Effect::BadAnswer(BadAnswer::OtherSpelling);
        fixture
            .cloud
            .inject(Fault::on(Method::BatchGetInstances, answer));
        fixture.register(first);
        sleep(PERIOD * 2).await;
        fixture.register(second);
        sleep(Duration::from_mins(1)).await;
        let events = fixture.events();
        let duplicate = "DuplicateProviderID".to_owned();
        assert!(events.contains(&duplicate), "{loser}: {events:?}");
        let taints = fixture.live(loser)["spec"]["taints"].to_string();
        assert!(taints.contains(UNINITIALIZED), "{loser}: {taints}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_the_deletion_leaves_nothing_behind() {
    let ignore = |_: &mut Fixture| Arc::new(|_: &_, _: Option<&_>| {}) as _;
    let (fixture, inputs) = hosted_on(synthesizing(|_| {}), ProviderOptions::default(), ignore);
    let hang = Effect::Hang { duration: None };
    fixture
        .cloud
        .inject(Fault::on(Method::BatchGetInstances, hang));
    fixture.register(node("n1"));
    sleep(Duration::from_secs(20)).await;
    fixture.vanish("n1");
    sleep(Duration::from_mins(5)).await;
    let state = inputs.state.current().unwrap();
    assert!(state.is_empty(), "{state:?}");
}

/// Its leader has done the work, so that a queue with ever new names would only grow.
#[tokio::test(start_paused = true)]
async fn a_standby_queues_no_node_that_is_gone() {
    let fixture = Fixture::new(Setup::default());
    let nodes = subscribe(&fixture.nodes, &fixture.queues).queue;
    let checks = lifecycle::subscribe(&fixture.nodes, &fixture.queues).queue;
    let cidrs = ipam::subscribe(&fixture.nodes, &fixture.queues).queue;
    let all: [Queue<Arc<str>>; 3] = [nodes, checks, cidrs];
    let depths = || all.each_ref().map(Queue::depth);
    for n in 0..100 {
        fixture.register(node(&format!("n{n}")));
    }
    assert_eq!(depths(), [100; 3]);
    for n in 1..100 {
        fixture.vanish(&format!("n{n}"));
    }
    assert_eq!(depths(), [1; 3]);
}
