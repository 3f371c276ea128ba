//! The loop hosted by the fixture.

mod held;
mod out_of_service;

use std::{sync::Arc, time::Duration};

use outrigger_core::node::{
    deletion_limit::DeletionLimits,
    instance::{Instance, Lookup},
};
use outrigger_provider_mock::{
    ProviderOptions,
    cloud::Clock,
    faults::{BadAnswer, Effect, Fault, InjectedError, Method},
    instances::{InstanceSpec, Power},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    LifecycleMetrics, LifecycleSettings, LifecycleState, NAME, NodeLifecycle, OnLookup, on_lookup,
    subscribe,
};
use crate::{
    control_loop::LoopInputs,
    fixture::{Fixture, Setup, cloud},
    not_managed::NotManaged,
};
use outrigger_kube::fixture::settled;

const MINUTE: Duration = Duration::from_mins(1);

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Hosts the loop, which takes the answers that another loop overhears.
pub(crate) fn host(fixture: &mut Fixture, limits: DeletionLimits) -> OnLookup {
    host_with(fixture, limits, Duration::ZERO)
}

fn host_with(
    fixture: &mut Fixture,
    limits: DeletionLimits,
    out_of_service_after: Duration,
) -> OnLookup {
    on_lookup(&hosted(fixture, limits, out_of_service_after))
}

/// Also the state of the lease term.
fn hosted(
    fixture: &mut Fixture,
    limits: DeletionLimits,
    out_of_service_after: Duration,
) -> LoopInputs<Arc<str>, LifecycleState> {
    let inputs = subscribe(&fixture.nodes, &fixture.queues);
    let settings = LifecycleSettings {
        workers: 32,
        selector: None,
        limits,
        out_of_service_after,
    };
    let not_managed = Arc::new(NotManaged::default());
    let metrics = LifecycleMetrics::register(&mut fixture.registry);
    fixture.host(NAME, inputs.clone(), move |context| {
        let (settings, not_managed) = (settings.clone(), Arc::clone(&not_managed));
        NodeLifecycle::new(context, settings, not_managed, metrics.clone())
    });
    inputs
}

/// The loop before the store has all nodes.
fn unsynced(limits: DeletionLimits) -> Fixture {
    let mut fixture = Fixture::new(Setup {
        // An absence is fresh by the machine's clock.
        cloud: cloud(|config| config.clock = Clock::Wall),
        ..Setup::default()
    });
    host(&mut fixture, limits);
    fixture.begin_term();
    fixture
}

/// So many nodes, lost or not, with a machine each; the first `gone` machines are deleted.
fn fleet(count: usize, ready: &str, gone: usize) -> Fixture {
    limited(count, ready, gone, DeletionLimits::default())
}

fn limited(count: usize, ready: &str, gone: usize, limits: DeletionLimits) -> Fixture {
    let fixture = unsynced(limits);
    fixture.nodes.finish_list(|_| true);
    for n in 0..count {
        let name = format!("n{n}");
        let spec = InstanceSpec::named(name.parse().unwrap());
        let instance = fixture.cloud.create(spec).unwrap();
        let id = fixture.cloud.provider_id(&instance.id);
        if n < gone {
            fixture.cloud.delete(&name).unwrap();
        }
        fixture.register(settled(&name, &id, ready));
    }
    fixture
}

fn left(fixture: &Fixture, count: usize) -> usize {
    (0..count)
        .filter(|n| fixture.exists(&format!("n{n}")))
        .count()
}

fn taints(fixture: &Fixture, name: &str) -> String {
    fixture.live(name)["spec"]["taints"].to_string()
}

fn says(fixture: &Fixture, name: &str, ready: &str) {
    fixture.cluster.change_node(name, |node| {
        node["status"]["conditions"][0]["status"] = json!(ready);
    });
    fixture.refresh(name);
}

fn value(fixture: &Fixture, line: &str) -> Option<f64> {
    let metrics = fixture.metrics();
    metrics
        .lines()
        .find_map(|l| l.strip_prefix(line)?.trim().parse().ok())
}

/// They come with each answer.
#[tokio::test(start_paused = true)]
async fn effects_on_a_lost_node_are_written_once() {
    let mut fixture = Fixture::new(Setup {
        provider: ProviderOptions {
            instance_effects: true,
            ..ProviderOptions::default()
        },
        ..Setup::default()
    });
    host(&mut fixture, DeletionLimits::default());
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    let spec = InstanceSpec::named("n0".parse().unwrap());
    let instance = fixture.cloud.create(spec).unwrap();
    let id = fixture.cloud.provider_id(&instance.id);
    fixture.register(settled("n0", &id, "Unknown"));
    fixture.asked(5).await;
    assert_eq!(fixture.api_writes(), ["PATCH /api/v1/nodes/n0/status"]);
    let annotations = fixture.live("n0")["metadata"]["annotations"].clone();
    assert_eq!(
        annotations["status.mock.example/instance"],
        instance.id.as_str()
    );
}

#[tokio::test(start_paused = true)]
async fn l7_a_lost_node_without_a_machine_is_deleted_with_an_event_before() {
    let fixture = fleet(10, "Unknown", 1);
    sleep(Duration::from_secs(20)).await;
    assert!(!fixture.exists("n0"));
    assert_eq!(left(&fixture, 10), 9);
    fixture.until_events(1).await;
    let mut writes = fixture.api_writes();
    writes.sort();
    assert_eq!(writes, ["DELETE /api/v1/nodes/n0", "POST DeletingNode"]);
    let deleted = r#"outrigger_node_deletions_total{release="within_limit"}"#;
    assert_eq!(value(&fixture, deleted), Some(1.0));
    let calls = r#"cloud_node_lifecycle_controller_cloud_provider_calls_total{operation="instance_exists",result="instance_not_found"}"#;
    assert_eq!(value(&fixture, calls), Some(2.0));
}

/// The newer versions of a node cannot be decoded, and its last view says that it is lost.
#[tokio::test(start_paused = true)]
async fn q4_a_node_of_which_only_an_old_version_is_known_is_not_deleted() {
    let fixture = fleet(10, "Unknown", 1);
    fixture.cluster.change_node("n0", |node| {
        node["status"]["conditions"][0]["status"] = json!("True");
    });
    sleep(MINUTE).await;
    assert!(fixture.exists("n0"));
    fixture.refresh("n0");
    sleep(MINUTE).await;
    assert!(fixture.exists("n0"));
    says(&fixture, "n0", "Unknown");
    sleep(MINUTE).await;
    assert_eq!(left(&fixture, 10), 9);
}

#[tokio::test(start_paused = true)]
async fn q20_no_node_is_looked_up_before_all_nodes_are_known() {
    let fixture = unsynced(DeletionLimits::default());
    fixture.register(settled("n0", "mock://gone", "Unknown"));
    sleep(MINUTE * 10).await;
    assert_eq!(fixture.cloud.counters().cloud_calls(), 0);
    fixture.nodes.finish_list(|_| true);
    sleep(MINUTE).await;
    assert!(fixture.cloud.counters().cloud_calls() > 0);
}

#[tokio::test(start_paused = true)]
async fn thirty_of_a_hundred_at_once_are_held_back_and_then_deleted() {
    let fixture = fleet(100, "Unknown", 30);
    sleep(MINUTE * 4).await;
    // Up to ten may go before it is known that there are so many.
    assert_eq!(left(&fixture, 100), 100);
    assert_eq!(
        value(&fixture, "outrigger_node_deletion_limited"),
        Some(1.0)
    );
    let absent = r#"outrigger_node_deletion_limit_nodes{state="absent"}"#;
    assert_eq!(value(&fixture, absent), Some(30.0));
    let writes = fixture.api_writes();
    assert_eq!(writes.len(), 30, "{writes:?}");
    assert!(
        writes
            .iter()
            .all(|write| write == "POST NodeDeletionWithheld")
    );
    sleep(MINUTE * 4).await;
    assert_eq!(left(&fixture, 100), 70);
    sleep(MINUTE * 6).await;
    assert_eq!(
        value(&fixture, "outrigger_node_deletion_limited"),
        Some(0.0)
    );
}

/// The lookup of another Node leaves in the same call.
#[tokio::test(start_paused = true)]
async fn a_ready_node_is_asked_about_beside_one_that_is_absent() {
    let fixture = fleet(4, "True", 1);
    says(&fixture, "n0", "Unknown");
    sleep(Duration::from_secs(30)).await;
    assert!(!fixture.exists("n0"));
    let calls = fixture.cloud.counters().cloud_calls();
    assert!(calls <= 6, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_has_found_nothing_deletes_nothing_however_few_are_absent() {
    let fixture = fleet(3, "Unknown", 3);
    says(&fixture, "n2", "True");
    sleep(MINUTE * 60).await;
    assert_eq!(left(&fixture, 3), 3);
    let none = r#"outrigger_node_deletions_withheld_total{reason="finds_none"}"#;
    assert_eq!(value(&fixture, none), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_said_and_tried_again() {
    let fixture = fleet(5, "Unknown", 1);
    fixture.cluster.refuse("/nodes/n0", 500, 2);
    sleep(MINUTE * 2).await;
    assert!(!fixture.exists("n0"));
    let failed = fixture
        .api_writes()
        .iter()
        .filter(|w| **w == "POST DeletingNodeFailed")
        .count();
    assert!(failed >= 1, "{:?}", fixture.api_writes());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_or_goes_is_not_asked_about_any_more() {
    let fixture = fleet(2, "Unknown", 0);
    sleep(MINUTE).await;
    says(&fixture, "n0", "True");
    fixture.vanish("n1");
    sleep(Duration::from_secs(1)).await;
    fixture.cloud.take_counters();
    sleep(MINUTE * 10).await;
    assert_eq!(fixture.cloud.counters().cloud_calls(), 0);
}
