//! The loop hosted by the fixture.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    cidr::Cidr,
    ipam::{Allocator, pool::Pool},
    node::instance::Lookup,
};
use outrigger_provider_mock::{
    ProviderOptions,
    faults::{BadAnswer, Effect, Fault, InjectedError, Method},
    instances::PodCidrRange,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{COMPONENT, IpamMetrics, NodeIpam, subscribe};
use crate::{
    fixture::{Fixture, Setup, cloud},
    lifecycle::OnLookup,
};
use outrigger_kube::fixture::node;
use outrigger_runtime::fixture::Warnings;

fn from_pool(range: &str, prefix_len: u8) -> Allocator {
    let range = Cidr::parse(range).unwrap();
    Allocator::from_pools(vec![Pool::new(range, prefix_len, &[]).unwrap()])
}

/// The loop in its first lease term; `nodes` are there before.
async fn begun(allocator: Allocator, nodes: impl IntoIterator<Item = Value>) -> Fixture {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, allocator);
    for node in nodes {
        fixture.register(node);
    }
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    fixture
}

fn host(fixture: &mut Fixture, allocator: Allocator) {
    host_with(fixture, allocator, Arc::new(|_, _| ()));
}

/// Hosts the loop; `on_lookup` receives the instances that it finds.
fn host_with(fixture: &mut Fixture, allocator: Allocator, on_lookup: OnLookup) {
    let inputs = subscribe(&fixture.nodes, &fixture.queues);
    let metrics = IpamMetrics::register(&mut fixture.registry);
    fixture.host(COMPONENT, inputs, move |context| {
        let write_limit = Some(Duration::from_secs(4));
        let (allocator, on_lookup) = (allocator.clone(), Arc::clone(&on_lookup));
        NodeIpam::new(context, allocator, write_limit, on_lookup, metrics.clone())
    });
}

fn named(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|n| node(&format!("n{n}")))
}

fn with_cidr(name: &str, cidr: &str) -> Value {
    let mut node = node(name);
    node["spec"]["podCIDR"] = cidr.into();
    node["spec"]["podCIDRs"] = json!([cidr]);
    node
}

fn cidrs(fixture: &Fixture, name: &str) -> Vec<String> {
    let spec = &fixture.live(name)["spec"];
    let all = spec["podCIDRs"].as_array().into_iter().flatten();
    let all: Vec<_> = all.map(|cidr| cidr.as_str().unwrap().to_owned()).collect();
    assert_eq!(spec["podCIDR"].as_str(), all.first().map(String::as_str));
    all
}

/// I-7: a lease term begins with the CIDRs that all Nodes have, those that the store has not seen yet too.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_last_leader_that_the_store_lacks_is_respected() {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, from_pool("10.0.0.0/16", 24));
    fixture.register(node("n0"));
    fixture.register(node("n1"));
    fixture.nodes.finish_list(|_| true);
    fixture.cluster.change_node("n0", |node| {
        node["spec"]["podCIDR"] = "10.0.1.0/24".into();
        node["spec"]["podCIDRs"] = json!(["10.0.1.0/24"]);
    });
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n0"), ["10.0.1.0/24"]);
    assert_eq!(cidrs(&fixture, "n1"), ["10.0.0.0/24"]);
    assert_eq!(fixture.api_writes(), ["PATCH /api/v1/nodes/n1"]);
}

/// A write that a killed process had sent comes before the limit.
#[tokio::test(start_paused = true)]
async fn after_taking_its_own_lease_back_node_ipam_lists_only_after_the_write_limit() {
    let mut fixture = Fixture::new(Setup {
        quiet_after: Duration::from_secs(4),
        ..Setup::default()
    });
    host(&mut fixture, from_pool("10.0.0.0/16", 24));
    fixture.register(node("n0"));
    fixture.register(node("n1"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    sleep(Duration::from_millis(3_900)).await;
    fixture.cluster.change_node("n1", |node| {
        node["spec"]["podCIDR"] = "10.0.0.0/24".into();
        node["spec"]["podCIDRs"] = json!(["10.0.0.0/24"]);
    });
    assert_eq!(fixture.api_writes(), [""; 0]);
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n0"), ["10.0.1.0/24"]);
    assert_eq!(fixture.api_writes(), ["PATCH /api/v1/nodes/n0"]);
}

/// I-7, I-17: the store never shows a Node of the list.
#[tokio::test(start_paused = true)]
async fn the_cidr_of_a_node_deleted_since_the_list_is_free() {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, from_pool("10.0.0.0/24", 24));
    fixture.cluster.create_node(with_cidr("n0", "10.0.0.0/24"));
    fixture.register(node("n1"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n1"), [""; 0]);
    fixture.cluster.delete_node("n0");
    for _ in 0..3 {
        fixture.settle().await;
    }
    assert_eq!(cidrs(&fixture, "n1"), ["10.0.0.0/24"]);
}

/// I-7, where the Node that the store still shows is gone already.
#[tokio::test(start_paused = true)]
async fn a_node_made_again_before_the_list_keeps_its_cidr() {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, from_pool("10.0.0.0/23", 24));
    fixture.register(node("n0"));
    fixture.register(node("n1"));
    fixture.nodes.finish_list(|_| true);
    fixture.cluster.change_node("n0", |node| {
        node["metadata"]["uid"] = "another".into();
        node["spec"]["podCIDR"] = "10.0.0.0/24".into();
        node["spec"]["podCIDRs"] = json!(["10.0.0.0/24"]);
    });
    fixture.begin_term();
    fixture.settle().await;
    // A late change of the Node that is gone.
    let mut late = node("n0");
    late["metadata"]["resourceVersion"] = "1".into();
    late["metadata"]["labels"] =
        json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    fixture.observe(late);
    fixture.settle().await;
    fixture.register(node("n2"));
    fixture.settle().await;
    assert_eq!(fixture.events(), ["CIDRNotAvailable"]);
    fixture.refresh("n0");
    fixture.settle().await;
    let all = ["n0", "n1", "n2"].map(|name| cidrs(&fixture, name));
    assert_eq!(all, [&["10.0.0.0/24"][..], &["10.0.1.0/24"], &[]]);
}

/// Another writer sets Pod CIDRs right before ours: the API server keeps the first.
#[tokio::test(start_paused = true)]
async fn a_node_that_got_cidrs_meanwhile_keeps_them() {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, from_pool("10.0.0.0/16", 24));
    fixture.cluster.before_next_patch(|node| {
        node["spec"]["podCIDR"] = "10.0.7.0/24".into();
        node["spec"]["podCIDRs"] = json!(["10.0.7.0/24"]);
    });
    fixture.register(node("n0"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    fixture.register(node("n1"));
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n0"), ["10.0.7.0/24"]);
    assert_eq!(cidrs(&fixture, "n1"), ["10.0.1.0/24"]);
    // The write that was refused in both of its forms, and no other.
    let writes = ["n0", "n0", "n1"].map(|name| format!("PATCH /api/v1/nodes/{name}"));
    assert_eq!(fixture.api_writes(), writes);
}

/// I-13, Q-18: one event for the whole wait. I-17: a deletion lets the Node that waits have the CIDR.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_gets_the_cidr_of_a_deleted_one() {
    let warnings = Warnings::listen();
    let fixture = begun(from_pool("10.0.0.0/31", 32), named(2)).await;
    fixture.register(node("waits"));
    fixture.settle().await;
    assert_eq!(fixture.events(), ["CIDRNotAvailable"]);
    assert_eq!(warnings.with("10.0.0.0/31").len(), 1);
    let freed = cidrs(&fixture, "n0");
    fixture.vanish("n0");
    // At once: the next try by back-off is some seconds away.
    sleep(Duration::from_millis(100)).await;
    assert_eq!(cidrs(&fixture, "waits"), freed);
    assert_eq!(fixture.events(), ["CIDRNotAvailable"]);
}

/// Pod CIDRs that make no sense are reported, and every other Node is served.
#[tokio::test(start_paused = true)]
async fn wrong_cidrs_of_a_node_are_reported_once_and_stop_nothing() {
    let wrong = [
        with_cidr("garbage", "no-cidr"),
        with_cidr("outside", "192.168.0.0/24"),
        with_cidr("first", "10.0.0.0/24"),
        with_cidr("second", "10.0.0.0/24"),
    ];
    let fixture = begun(from_pool("10.0.0.0/16", 24), wrong).await;
    fixture.register(node("n0"));
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n0"), ["10.0.1.0/24"]);
    let mut events = fixture.events();
    events.sort();
    assert_eq!(
        events,
        ["DuplicatePodCIDR", "InvalidPodCIDR", "InvalidPodCIDR"]
    );
    // The CIDR of two Nodes is free when both are gone.
    fixture.vanish("first");
    fixture.register(node("n1"));
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n1"), ["10.0.2.0/24"]);
    // Another writer's, later.
    fixture.register(with_cidr("third", "10.0.2.0/24"));
    fixture.settle().await;
    assert_eq!(fixture.events().last().unwrap(), "DuplicatePodCIDR");
    assert_eq!(fixture.events().len(), 4);
}

/// I-16: a failed write is an event of the Node, and the Node keeps what was allocated to it.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_repeated_with_the_same_cidr() {
    // The API server has too much to do: no event besides.
    for (code, events) in [(500, 2), (429, 0)] {
        let mut fixture = Fixture::new(Setup::default());
        host(&mut fixture, from_pool("10.0.0.0/16", 24));
        fixture.cluster.refuse("/nodes/n0", code, 2);
        fixture.register(node("n0"));
        fixture.nodes.finish_list(|_| true);
        fixture.begin_term();
        fixture.settle().await;
        assert_eq!(cidrs(&fixture, "n0"), ["10.0.0.0/24"]);
        assert_eq!(fixture.events(), vec!["CIDRAssignmentFailed"; events]);
        let is_patch = |write: &&String| *write == "PATCH /api/v1/nodes/n0";
        assert_eq!(fixture.api_writes().iter().filter(is_patch).count(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_bring_the_next_try_forward() {
    let mut fixture = Fixture::new(Setup::default());
    host(&mut fixture, from_pool("10.0.0.0/16", 24));
    fixture.cluster.refuse("/nodes/n0", 429, 100);
    fixture.register(node("n0"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    let before = fixture.api_writes();
    for _ in 0..10 {
        fixture.cluster.change_node("n0", |_| {});
        fixture.refresh("n0");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(fixture.api_writes(), before);
}

#[tokio::test(start_paused = true)]
async fn a_paused_node_gets_no_cidr_until_it_is_released() {
    let mut paused = node("n0");
    paused["metadata"]["labels"] =
        json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    let fixture = begun(from_pool("10.0.0.0/16", 24), [paused]).await;
    assert_eq!(fixture.api_writes(), [""; 0]);
    fixture.cluster.change_node("n0", |node| {
        node["metadata"]["labels"] = json!({});
    });
    fixture.refresh("n0");
    fixture.settle().await;
    assert_eq!(cidrs(&fixture, "n0"), ["10.0.0.0/24"]);
}

/// A cloud that takes 1 s to name the Pod CIDRs of any instance, and the loop.
fn allocating_cloud() -> Fixture {
    let mut fixture = slow_cloud();
    host(&mut fixture, Allocator::from_provider());
    fixture
}

fn slow_cloud() -> Fixture {
    let range = PodCidrRange::new("10.9.0.0/16".parse().unwrap(), 24).unwrap();
    Fixture::new(Setup {
        cloud: cloud(|config| {
            config.synthesize = true;
            config.latency = Duration::from_secs(1);
            config.pod_cidrs = vec![range];
        }),
        provider: ProviderOptions {
            max_batch_size: 100,
            ..ProviderOptions::default()
        },
        ..Setup::default()
    })
}

/// It contradicts an absence, whichever loop asked.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_found_counts_for_the_rate_limit_of_deletions() {
    let mut fixture = slow_cloud();
    let names = Arc::new(Mutex::new(Vec::new()));
    let overhears = Arc::clone(&names);
    let on_lookup: OnLookup = Arc::new(move |node, lookup| {
        assert!(matches!(lookup, Some(Lookup::Found(_))), "{lookup:?}");
        overhears.lock().push(node.name.to_string());
    });
    host_with(&mut fixture, Allocator::from_provider(), on_lookup);
    named(2).for_each(|node| fixture.register(node));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    // The provider has been asked about a Node that is gone when it answers.
    sleep(Duration::from_millis(500)).await;
    fixture.vanish("n0");
    fixture.settle().await;
    assert_eq!(*names.lock(), ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_a_node_that_is_another_by_then_is_not_used() {
    let fixture = allocating_cloud();
    named(2).for_each(|node| fixture.register(node));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    // The provider has been asked, and has not answered.
    sleep(Duration::from_millis(500)).await;
    fixture.cluster.change_node("n0", |node| {
        node["metadata"]["uid"] = "another".into();
    });
    fixture.cluster.change_node("n1", |node| {
        node["spec"]["podCIDR"] = "10.7.0.0/24".into();
        node["spec"]["podCIDRs"] = json!(["10.7.0.0/24"]);
    });
    fixture.refresh("n0");
    fixture.refresh("n1");
    fixture.settle().await;
    assert_eq!(fixture.calls("BatchGetInstances"), 2);
    assert_eq!(cidrs(&fixture, "n0").len(), 1);
    assert_eq!(fixture.api_writes(), ["PATCH /api/v1/nodes/n0"]);
}

/// Waits until `names` have Pod CIDRs, for less than their back-off has grown to.
async fn all_served(fixture: &Fixture, names: &[&str]) {
    let served = || names.iter().all(|name| !cidrs(fixture, name).is_empty());
    for _ in 0..50 {
        if served() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let missing: Vec<_> = names
        .iter()
        .filter(|name| cidrs(fixture, name).is_empty())
        .collect();
    panic!("no Pod CIDR within 5 s: {missing:?}");
}

/// Not I-17's wait: as many as there is room for. The deleted Node's CIDR is from before a change of the mask size.
#[tokio::test(start_paused = true)]
async fn all_nodes_that_the_freed_cidrs_are_enough_for_get_one() {
    let waiting = ["a", "b", "c", "d", "e"];
    let mut nodes = vec![with_cidr("large", "10.0.0.0/24")];
    nodes.extend(waiting.map(node));
    let fixture = begun(from_pool("10.0.0.0/24", 26), nodes).await;
    sleep(Duration::from_mins(10)).await;
    fixture.vanish("large");
    all_served(&fixture, &waiting[..4]).await;
    assert_eq!(cidrs(&fixture, "e"), [""; 0]);
    // Once for each wait.
    let events = fixture.events();
    let waits = events.iter().filter(|reason| *reason == "CIDRNotAvailable");
    assert_eq!(waits.count(), 5, "{events:?}");
}

/// The documented remedy of a duplicate: one of the two Nodes is deleted.
#[tokio::test(start_paused = true)]
async fn a_node_refused_as_a_duplicate_goes_on_when_the_other_is_gone() {
    let fixture = allocating_cloud();
    fixture.register(node("a"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    let [taken] = &cidrs(&fixture, "a")[..] else {
        panic!("no Pod CIDR");
    };
    fixture.register(with_cidr("other", taken));
    fixture.cluster.delete_node("a");
    fixture
        .nodes
        .delete("a", outrigger_kube::store::Origin::Watch);
    fixture.register(node("a"));
    sleep(Duration::from_mins(30)).await;
    assert_eq!(cidrs(&fixture, "a"), [""; 0]);
    fixture.vanish("other");
    all_served(&fixture, &["a"]).await;
}

/// The cloud gives the CIDR late: it is asked again within half a minute, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_the_cloud_is_asked_about_again_soon() {
    let fixture = served_late();
    sleep(Duration::from_hours(1)).await;
    assert_eq!(cidrs(&fixture, "a"), [""; 0]);
    fixture.create("a");
    sleep(Duration::from_secs(31)).await;
    assert_eq!(cidrs(&fixture, "a").len(), 1);
}

/// Its network waits for the Pod CIDR, so that the Node never is Ready.
#[tokio::test(start_paused = true)]
async fn a_node_that_gets_no_pod_cidr_from_the_cloud_says_why_after_30_seconds() {
    let not_managed = Effect::BadAnswer(BadAnswer::NotManaged);
    let fails = Effect::Error(InjectedError::new(tonic::Code::Internal));
    for (cause, why) in [
        (None, "no instance named"),
        (Some(not_managed), "does not manage the Node"),
        (Some(fails), "injected"),
    ] {
        let fixture = served_late();
        if let Some(cause) = cause {
            fixture.create("a");
            let fault = Fault::on(Method::BatchGetInstances, cause);
            fixture.cloud.inject(fault);
        }
        sleep(Duration::from_secs(29)).await;
        assert_eq!(fixture.events(), [""; 0], "{why}");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(fixture.events(), ["CIDRNotAvailable"], "{why}");
        let said = fixture.cluster.event_messages();
        assert!(said[0].contains(why), "{said:?}");
        // A single mistake of the provider does not last, and the event comes once.
        fixture.cloud.clear_faults();
        sleep(Duration::from_mins(6)).await;
        assert_eq!(fixture.events().len(), 1, "{why}");
        let has_machine = why != "no instance named";
        assert_eq!(
            cidrs(&fixture, "a").len(),
            usize::from(has_machine),
            "{why}"
        );
    }
}

/// The Node `a`, for which the cloud has no machine yet.
fn served_late() -> Fixture {
    let range = PodCidrRange::new("10.9.0.0/16".parse().unwrap(), 24).unwrap();
    let mut fixture = Fixture::new(Setup {
        cloud: cloud(|config| config.pod_cidrs = vec![range]),
        ..Setup::default()
    });
    host(&mut fixture, Allocator::from_provider());
    fixture.register(node("a"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture
}
