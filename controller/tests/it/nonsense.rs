//! Providers that lie: no node is changed wrongly, the controller survives, and it heals.

use std::{collections::BTreeSet, time::Duration};

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    look::{addresses, is_tainted, label, provider_id, reason},
    stage::Setup,
    wait::{holds, until},
};

/// A label of Kubernetes' own that the mock gives away.
const ROLE: &str = "node-role.kubernetes.io/control-plane";

/// Nonsense about one node, and the words with which it is refused.
const ITEMS: [(BadAnswer, &[&str]); 8] = [
    (
        BadAnswer::OversizedStrings,
        &["provider_id", "is longer than 1,024 bytes"],
    ),
    (BadAnswer::MissingResult, &["no result for the node"]),
    (BadAnswer::DuplicateResult, &["two results for one node"]),
    (BadAnswer::BadLabel, &["zone", "no label value!"]),
    (
        BadAnswer::WrongPrefix,
        &["provider_id", "starts with none of its prefixes: mock://"],
    ),
    (
        BadAnswer::EmptyProviderId,
        &["cloud provider does not set node provider ID"],
    ),
    (BadAnswer::StaleAbsence, &["instance not found"]),
    (BadAnswer::Empty, &["a result without an outcome"]),
];

#[tokio::test]
async fn nonsense_about_one_node_leaves_it_alone_is_said_and_its_neighbours_go_on() {
    let mut stage = Setup::synthesizing().start().await;
    let pid = stage.controller.pid();
    for (bad, words) in ITEMS {
        let (name, neighbour) = (format!("spoilt-{bad}"), format!("neighbour-{bad}"));
        stage.mock.spoil_node(&name, bad).await;
        let lookups = stage.mock.asked().await;
        stage
            .register_all([&name, &neighbour].map(Machine::new))
            .await;
        let words = [&[&*name][..], words].concat();
        let line = stage.controller.says(&words).await;
        assert!(line.contains("WARN"), "{line}");
        assert!(line.len() < 600, "{} bytes: {line}", line.len());
        stage.synced(&neighbour).await;
        // The second time about the one that is spoilt, five seconds later.
        stage.mock.was_asked(lookups + 3).await;

        let node = stage.node(&name).await;
        assert!(is_tainted(&node), "{name}");
        assert_eq!(provider_id(&node), None, "{name}");
        for key in ["topology.kubernetes.io/zone", ROLE] {
            assert_eq!(label(&node, key), None, "{name}");
        }
        assert_eq!(addresses(&node), [format!("Hostname={name}")], "{name}");
        assert_eq!(stage.writes_of(&name), [""; 0]);
        assert_eq!(stage.controller.pid(), pid);

        stage.mock.clear().await;
        let id = stage.mock.provider_id(&neighbour).await;
        assert_eq!(provider_id(&stage.node(&neighbour).await), Some(&*id));
        // A change of the node is a reason to look sooner than the back-off says.
        let change = json!({"metadata": {"annotations": {"changed": "1"}}});
        stage.merge(&name, change).await;
        let node = stage.synced(&name).await;
        let id = stage.mock.provider_id(&name).await;
        assert_eq!(provider_id(&node), Some(&*id), "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_thrown_away() {
    let backstage = Setup::synthesizing()
        .machines(Machine::numbered("large-", 3))
        .prepare()
        .await;
    let large = Effect::BadAnswer(BadAnswer::OversizedReply);
    backstage
        .mock
        .inject(Fault::on(Method::BatchGetInstances, large))
        .await;
    let mut stage = backstage.start();
    let pid = stage.controller.pid();
    stage.mock.was_asked(6).await;
    for node in stage.named("large-").await {
        assert!(is_tainted(&node));
    }
    assert_eq!(stage.writes(), [""; 0]);
    stage.mock.clear().await;
    stage.all_synced("large-", 3).await;
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn two_nodes_with_one_machine_are_both_refused() {
    let backstage = Setup::synthesizing()
        .machines(Machine::numbered("twin-", 4))
        .prepare()
        .await;
    let same = Effect::BadAnswer(BadAnswer::DuplicateProviderId);
    backstage
        .mock
        .inject(Fault::on(Method::BatchGetInstances, same))
        .await;
    let stage = backstage.start();
    stage.mock.was_asked(8).await;
    for node in stage.named("twin-").await {
        stage
            .untouched(
                node.metadata.name.as_deref().unwrap(),
                Duration::from_millis(50),
            )
            .await;
    }
    stage.mock.clear().await;
    let nodes = stage.all_synced("twin-", 4).await;
    let ids: BTreeSet<_> = nodes.iter().filter_map(provider_id).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[tokio::test]
async fn a_provider_id_that_another_node_has_is_refused_and_said_on_the_node() {
    let stage = Setup::synthesizing().start().await;
    let same = Effect::BadAnswer(BadAnswer::DuplicateProviderId);
    stage
        .mock
        .inject(Fault::on(Method::BatchGetInstances, same))
        .await;
    // The first one cannot be distinguished from the truth.
    stage.register(&Machine::new("first")).await;
    let id = "mock://i-the-same-for-all";
    assert_eq!(provider_id(&stage.synced("first").await), Some(id));
    let second = stage.register(&Machine::new("second")).await;
    let event = until("the warning", async || {
        let events = stage.events_of(&second).await;
        let mut warnings = events.into_iter();
        let warning = warnings.find(|event| reason(event) == "DuplicateProviderID");
        warning.ok_or_else(|| "none".to_owned())
    })
    .await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = "provider ID \"mock://i-the-same-for-all\" of node \"second\" belongs to node \"first\" already";
    assert_eq!(event.message.as_deref(), Some(message));
    let node = stage.node("second").await;
    assert!(is_tainted(&node) && provider_id(&node).is_none());

    // The same after the controller has forgotten everything.
    let mut stage = stage;
    stage.restart_controller().await;
    let lookups = stage.mock.asked().await;
    stage.mock.was_asked(lookups + 3).await;
    assert!(is_tainted(&stage.node("second").await));

    stage.mock.clear().await;
    let own = provider_id(&stage.synced("second").await).map(str::to_owned);
    assert_eq!(own, Some(stage.mock.provider_id("second").await));
    assert_eq!(provider_id(&stage.node("first").await), Some(id));
}

#[tokio::test]
async fn whatever_a_provider_says_now_and_then_all_nodes_are_right_in_the_end() {
    const NODES: usize = 40;
    let mut stage = Setup::mock(&["--synthesize-instances", "--max-batch-size=8", "--seed=7"])
        .start()
        .await;
    let pid = stage.controller.pid();
    for (bad, _) in ITEMS {
        let fault = Fault::on(Method::BatchGetInstances, Effect::BadAnswer(bad));
        stage.mock.inject(fault.with_rate(0.2)).await;
    }
    stage.register_all(Machine::numbered("now-", NODES)).await;
    stage.mock.was_asked((NODES + NODES / 4) as u64).await;
    for node in stage.named("now-").await {
        let name = node.metadata.name.as_deref().unwrap();
        let right = stage.mock.provider_id(name).await;
        holds(provider_id(&node).is_none_or(|id| id == right), || {
            name.to_owned()
        })
        .unwrap();
    }
    stage.mock.clear().await;
    for node in stage.all_synced("now-", NODES).await {
        let name = node.metadata.name.as_deref().unwrap();
        let right = stage.mock.provider_id(name).await;
        assert_eq!(provider_id(&node), Some(&*right));
        assert_eq!(stage.writes_of(name).len(), 3, "{name}");
    }
    assert_eq!(stage.controller.pid(), pid);
}
