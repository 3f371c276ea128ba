//! `spec.providerID`: set once, never changed.

use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_provider_mock::instances::InstanceSpec;
use outrigger_testbed::nodes::Machine;

use crate::{
    look::provider_id,
    mock::instance,
    scripted::{self, Scripted, handshake},
    stage::Setup,
    wait::{holds, until},
};

#[tokio::test]
async fn n13_a_node_without_a_provider_id_gets_it() {
    let stage = Setup::mock(&[]).start().await;
    stage
        .mock
        .create(InstanceSpec {
            id: Some("i-13".parse().unwrap()),
            ..instance("n13")
        })
        .await;
    stage.register(&Machine::new("n13")).await;
    assert_eq!(provider_id(&stage.synced("n13").await), Some("mock://i-13"));
}

#[tokio::test]
async fn n13_a_node_that_has_a_provider_id_is_looked_up_by_it_and_keeps_it() {
    let mut stage = Setup::mock(&[]).start().await;
    stage
        .mock
        .create(InstanceSpec {
            id: Some("i-13".parse().unwrap()),
            ..instance("another-name")
        })
        .await;
    stage
        .register(&Machine::new("n13").provider_id("mock://i-13"))
        .await;
    assert_eq!(provider_id(&stage.synced("n13").await), Some("mock://i-13"));

    // Nor when the answer names another one.
    stage.mock.kill().await;
    let provider = Scripted::serve(stage.dir(), handshake(), |_| {
        Outcome::Found(scripted::instance("mock://i-another"))
    });
    stage
        .register(&Machine::new("n13-b").provider_id("mock://i-mine"))
        .await;
    assert_eq!(
        provider_id(&stage.synced("n13-b").await),
        Some("mock://i-mine")
    );
    assert_eq!(provider.asked("n13-b")[0].provider_id, "mock://i-mine");
    stage
        .controller
        .says(&["mock://i-another", "the node has \"mock://i-mine\" already"])
        .await;
}

#[tokio::test]
async fn n31_without_any_provider_id_the_taint_stays() {
    let backstage = Setup::without_provider().prepare().await;
    let provider = Scripted::serve(backstage.dir(), handshake(), |_| {
        Outcome::Found(scripted::instance(""))
    });
    let mut stage = backstage.start();
    stage.register(&Machine::new("n31-none")).await;
    stage
        .register(&Machine::new("n31-own").provider_id("mock://mine"))
        .await;
    assert_eq!(
        provider_id(&stage.synced("n31-own").await),
        Some("mock://mine")
    );
    stage
        .controller
        .says(&[
            "node sync failed",
            "initialize",
            "cloud provider does not set node provider ID for node n31-none",
        ])
        .await;
    stage
        .untouched("n31-none", Duration::from_millis(700))
        .await;
    // Not for good, though: it is asked again, slowly.
    until("another lookup", async || {
        let count = provider.asked("n31-none").len();
        holds(count > 1, || format!("{count} so far"))
    })
    .await;
    drop(provider);
    stage.start_mock(&["--synthesize-instances"]).await;
    let node = stage.synced("n31-none").await;
    assert_eq!(
        provider_id(&node),
        Some(&*stage.mock.provider_id("n31-none").await)
    );
}

#[tokio::test]
async fn n31_a_cloud_without_provider_ids_needs_none() {
    let backstage = Setup::without_provider().prepare().await;
    let mut greeting = handshake();
    if let Some(instances) = greeting
        .capabilities
        .as_mut()
        .and_then(|c| c.instances.as_mut())
    {
        instances.without_provider_id = true;
    }
    let _provider = Scripted::serve(backstage.dir(), greeting, |_| {
        Outcome::Found(scripted::instance(""))
    });
    let stage = backstage.start();
    stage.register(&Machine::new("n31")).await;
    assert_eq!(provider_id(&stage.synced("n31").await), None);
}

#[tokio::test]
async fn a_node_of_another_provider_is_neither_asked_about_nor_written() {
    let stage = Setup::synthesizing().start().await;
    stage
        .register(&Machine::new("foreign").provider_id("other://i-1"))
        .await;
    stage.register(&Machine::new("ours")).await;
    stage.synced("ours").await;
    assert_eq!(stage.mock.asked().await, 1);
    assert_eq!(stage.writes_of("foreign"), [""; 0]);
}
