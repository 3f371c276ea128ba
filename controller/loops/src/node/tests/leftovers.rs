//! Nothing stays of a Node that is gone, or of a term that has not begun.

use std::{sync::Arc, time::Duration};

use outrigger_provider_mock::{
    ProviderOptions,
    faults::{Effect, Fault, Method},
    instances::InstanceSpec,
};
use serde_json::json;
use tokio::time::sleep;

use super::{hosted_on, start, start_in, synthesizing};
use crate::{
    fixture::{Fixture, Setup, cloud},
    ipam, lifecycle,
    node::subscribe,
    not_managed::NotManaged,
    queue::Queue,
};
use outrigger_kube::fixture::node;

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
    let not_managed = Arc::new(NotManaged::default());
    let nodes = subscribe(&fixture.nodes, not_managed, &fixture.queues).queue;
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
