//! Addresses that a kubelet writes into the status of its Node: load balancers and routes do not follow.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    node::{NodeAddress, NodeView},
    targets::{Revision, Targets},
};
use outrigger_provider_mock::{
    cloud::Preference,
    faults::{BadAnswer, Effect, Fault, Method},
    instances::InstanceSpec,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    PERIOD,
    refresh::{edit_addresses, fleet},
    start,
};
use crate::fixture::Fixture;
use outrigger_kube::{
    fixture::{node, settled},
    store::Change,
};

const PAUSED: &str = "outrigger.dev.node-restriction.kubernetes.io/paused";

/// The revision of the Nodes that load balancers are made from.
fn revision(fixture: &Fixture) -> Revision {
    Targets::among(fixture.nodes.all()).revision().clone()
}

fn view(fixture: &Fixture, name: &str) -> Arc<NodeView> {
    fixture.nodes.get(name).unwrap()
}

fn addresses(status: &Value) -> Vec<NodeAddress> {
    serde_json::from_value(status["status"]["addresses"].clone()).unwrap()
}

/// The one that a thief would have others' traffic sent to.
fn steal(fixture: &Fixture, name: &str) {
    fixture.cluster.change_node(name, |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.0.2.66"}]);
    });
    fixture.refresh(name);
}

/// Nor are there calls about it before the sweep that is due anyway.
#[tokio::test(start_paused = true)]
async fn an_address_of_the_kubelet_is_no_change_of_targets_and_costs_no_call() {
    for preference in [Preference::List, Preference::Batch, Preference::Each] {
        let fixture = fleet(20, preference).await;
        sleep(PERIOD).await;
        let (targets, addresses_before) = (revision(&fixture), addresses(&fixture.live("n7")));
        fixture.cloud.take_counters();
        sleep(PERIOD).await;
        let in_a_period = fixture.cloud.take_counters().cloud_calls();
        for _ in 0..10 {
            steal(&fixture, "n7");
            assert_eq!(revision(&fixture), targets, "{preference:?}");
            edit_addresses(&fixture, "n7");
            assert_eq!(revision(&fixture), targets, "{preference:?}");
            sleep(PERIOD / 10).await;
        }
        let calls = fixture.cloud.take_counters().cloud_calls();
        assert!(
            calls <= in_a_period + 1,
            "{preference:?}: {calls} of {in_a_period}"
        );
        sleep(PERIOD).await;
        assert_eq!(revision(&fixture), targets);
        assert_eq!(addresses(&fixture.live("n7")), addresses_before);
        assert_eq!(view(&fixture, "n7").reported, None);
    }
}

/// A paused Node is not written to, and is a target as any Node.
#[tokio::test(start_paused = true)]
async fn a_paused_node_is_a_target_where_the_cloud_says() {
    let fixture = fleet(3, Preference::List).await;
    let targets = revision(&fixture);
    fixture.cluster.change_node("n1", |node| {
        node["metadata"]["labels"][PAUSED] = "true".into();
    });
    steal(&fixture, "n1");
    let before = fixture.api_writes().len();
    sleep(PERIOD * 3).await;
    assert_eq!(revision(&fixture), targets);
    assert_eq!(fixture.api_writes().len(), before);
    assert_eq!(
        addresses(&fixture.live("n1"))[0].address,
        "192.0.2.66".into()
    );
    fixture.cluster.change_node("n1", |node| {
        node["metadata"]["labels"][PAUSED] = Value::Null;
    });
    fixture.refresh("n1");
    sleep(PERIOD * 2).await;
    assert_eq!(revision(&fixture), targets);
    assert_eq!(view(&fixture, "n1").reported, None);
}

/// A kubelet may register without the taint, with any address and the ID of its machine.
#[tokio::test(start_paused = true)]
async fn a_node_that_registers_is_a_target_where_the_cloud_says() {
    let fixture = fleet(1, Preference::List).await;
    let id = view(&fixture, "n0").provider_id.clone();
    fixture.vanish("n0");
    let thief = settled("n0", &id, "True");
    fixture.register(thief);
    assert!(view(&fixture, "n0").addresses.is_empty());
    steal(&fixture, "n0");
    assert!(view(&fixture, "n0").addresses.is_empty());
    fixture.settle().await;
    let now = view(&fixture, "n0");
    assert!(
        !now.addresses.is_empty() && now.reported.is_none(),
        "{now:?}"
    );
    assert_eq!(now.addresses.to_vec(), addresses(&fixture.live("n0")));
    assert!(
        now.addresses
            .iter()
            .all(|one| &*one.address != "192.0.2.66"),
        "{now:?}"
    );
}

/// The provider is not asked about it, and so does not know better.
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_has_the_addresses_of_its_status() {
    let fixture = start();
    fixture.register(settled("n1", "other://1", "True"));
    steal(&fixture, "n1");
    sleep(Duration::from_secs(1)).await;
    let now = view(&fixture, "n1");
    assert_eq!(
        (&*now.addresses[0].address, &now.reported),
        ("192.0.2.66", &None)
    );
    assert_eq!(fixture.calls("BatchGetInstances"), 0);
}

/// A new leader takes the status as it is, until its first sweep.
#[tokio::test(start_paused = true)]
async fn a_new_lease_term_believes_the_status_until_its_first_sweep() {
    let fixture = fleet(3, Preference::List).await;
    sleep(PERIOD).await;
    let targets = revision(&fixture);
    fixture.end_term();
    fixture.settle().await;
    // Another leader has written them.
    steal(&fixture, "n1");
    let stolen = revision(&fixture);
    assert_ne!(stolen, targets);
    fixture.begin_term();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(revision(&fixture), targets);
}

/// It was there before the term began, with its kubelet's addresses, of which the route loop says that none is an IP address.
#[tokio::test(start_paused = true)]
async fn a_node_has_the_addresses_of_the_cloud_before_its_taint_goes() {
    let fixture = start();
    fixture.end_term();
    fixture.settle().await;
    fixture.register(node("n1"));
    let (tell, changes) = std::sync::mpsc::channel();
    fixture.nodes.subscribe(move |change, _| {
        if let Change::Updated(_, node) = change {
            let has_ip = node.addresses.iter().any(NodeAddress::is_ip);
            let _ = tell.send((node.is_uninitialized(), has_ip));
        }
    });
    fixture.begin_term();
    fixture.initialized("n1").await;
    let states: Vec<_> = changes.try_iter().collect();
    assert!(
        states.contains(&(false, true)) && !states.contains(&(false, false)),
        "{states:?}"
    );
}

/// From now on, in so many answers.
fn name_hosts_only(fixture: &Fixture, answers: u64) {
    let bad = Effect::BadAnswer(BadAnswer::HostnamesOnly);
    let fault = Fault::on(Method::BatchGetInstances, bad);
    fixture.cloud.inject(fault.times(answers));
}

fn kept_events(fixture: &Fixture) -> usize {
    let events = fixture.events();
    events.iter().filter(|one| **one == "AddressesKept").count()
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_addresses_one_answer_lacks_is_asked_about_again() {
    let fixture = fleet(3, Preference::Batch).await;
    sleep(PERIOD + Duration::from_secs(10)).await;
    let (targets, before) = (revision(&fixture), addresses(&fixture.live("n1")));
    name_hosts_only(&fixture, 1);
    fixture.cloud.take_counters();
    sleep(PERIOD / 2).await;
    let writes = fixture.api_writes().len();
    sleep(PERIOD / 2 + Duration::from_secs(140)).await;
    // The sweep, and no more.
    assert_eq!(fixture.calls("BatchGetInstances"), 1);
    assert_eq!(kept_events(&fixture), 3);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(fixture.calls("BatchGetInstances"), 2);
    sleep(PERIOD * 2).await;
    assert_eq!(revision(&fixture), targets);
    assert_eq!(addresses(&fixture.live("n1")), before);
    let writes = fixture.api_writes().split_off(writes);
    assert_eq!(writes, ["POST AddressesKept"; 3]);
    // Sweeps alone: nothing is doubted.
    fixture.cloud.take_counters();
    sleep(PERIOD * 2).await;
    assert_eq!(fixture.calls("BatchGetInstances"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kept_address_goes_at_once_when_the_cloud_gives_it_to_another_node() {
    let fixture = fleet(2, Preference::Batch).await;
    sleep(PERIOD + Duration::from_secs(10)).await;
    let given = fixture.cloud.find("n1").unwrap().addresses.clone();
    name_hosts_only(&fixture, 1);
    sleep(PERIOD).await;
    let is_ip = |one: &&NodeAddress| one.is_ip();
    let of = |name: &str| view(&fixture, name).addresses.iter().filter(is_ip).count();
    assert!(of("n1") > 0);
    let mut spec = InstanceSpec::named("n9".parse().unwrap());
    spec.addresses = given;
    fixture.cloud.create(spec).unwrap();
    // Only the answers about the new machine are right.
    let bad = Effect::BadAnswer(BadAnswer::HostnamesOnly);
    let fault = Fault::on(Method::BatchGetInstances, bad).for_node("n1".parse().unwrap());
    fixture.cloud.inject(fault);
    fixture.register(node("n9"));
    sleep(Duration::from_secs(2)).await;
    assert!(of("n9") > 0);
    assert_eq!(of("n1"), 0);
    let now = addresses(&fixture.live("n1"));
    assert!(now.iter().all(|one| &*one.kind == "Hostname"), "{now:?}");
}
