//! Answers that are wrong in part, or once.

use std::time::Duration;

use outrigger_core::node::deletion_limit::DeletionLimits;
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use serde_json::json;
use tokio::time::sleep;

use super::{PERIOD, hosted, start};
use crate::{
    fixture::{Fixture, cloud},
    lifecycle,
};
use outrigger_kube::fixture::{UNINITIALIZED, node, settled};

fn spoil(fixture: &Fixture, answer: BadAnswer) -> Fault {
    let fault = Fault::on(Method::BatchGetInstances, Effect::BadAnswer(answer));
    fixture.cloud.inject(fault.clone());
    fault
}

fn addresses(fixture: &Fixture) -> Vec<String> {
    let live = fixture.live("n1");
    let addresses = live["status"]["addresses"].as_array().unwrap().iter();
    addresses
        .map(|address| address["address"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_none_is_left_out_with_an_event() {
    let fixture = start();
    spoil(&fixture, BadAnswer::MalformedAddress);
    fixture.register(node("n1"));
    fixture.initialized("n1").await;
    fixture.until_events(2).await;
    let mut events = fixture.events();
    events.sort();
    assert_eq!(events, ["InvalidAddress", "Synced"]);
    let said = fixture.cluster.event_messages().join("");
    assert!(
        said.contains(r#""999.0.2.1/33" is no IP address"#),
        "{said}"
    );
    let written = addresses(&fixture);
    assert!(written.len() > 1, "{written:?}");
    assert!(!written.contains(&"999.0.2.1/33".to_owned()), "{written:?}");
    let metrics = fixture.metrics();
    let line = "outrigger_node_addresses_dropped_total 1";
    assert!(metrics.contains(line), "{metrics}");

    // In sync as well: once a period, and nothing is written for it.
    let writes = |fixture: &Fixture| fixture.cluster.requests().len();
    sleep(PERIOD * 2).await;
    let before = writes(&fixture);
    sleep(PERIOD * 2).await;
    let patches = fixture.cluster.requests().split_off(before);
    assert!(
        !patches.iter().any(|r| r.contains("/nodes/")),
        "{patches:?}"
    );
}

/// A bad build of the provider says so once, and goes on in the same process.
#[tokio::test(start_paused = true)]
async fn n12_one_answer_that_a_node_is_not_managed_does_not_last_for_ever() {
    let fixture = start();
    let answer = Effect::BadAnswer(BadAnswer::NotManaged);
    let once = Fault::on(Method::BatchGetInstances, answer).times(1);
    fixture.cloud.inject(once);
    fixture.register(node("n1"));
    fixture.asked(1).await;
    sleep(Duration::from_mins(4)).await;
    assert_eq!(fixture.calls("BatchGetInstances"), 1);
    sleep(Duration::from_mins(2)).await;
    fixture.initialized("n1").await;
}

/// In a new cluster there is no other sign that the cloud shows no machine at all.
#[tokio::test(start_paused = true)]
async fn an_absence_of_a_ready_node_speaks_against_the_provider_before_the_node_is_initialised() {
    let fixture = hosted(cloud(|_| {}), |fixture| {
        lifecycle::tests::host(fixture, DeletionLimits::default())
    });
    for n in 1..=5 {
        let mut node = settled(&format!("n{n}"), "", "True");
        node["spec"] = json!({"taints": [{"key": UNINITIALIZED, "effect": "NoSchedule"}]});
        fixture.register(node);
    }
    sleep(Duration::from_secs(10)).await;
    let line = r#"outrigger_node_deletion_limit_nodes{state="absent_while_ready"} 5"#;
    let metrics = fixture.metrics();
    assert!(metrics.contains(line), "{metrics}");
}
