//! Providers that lie: no node is changed wrongly, the controller survives, and it heals.

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_testbed::nodes::Machine;

use crate::{
    look::{is_tainted, provider_id},
    stage::Setup,
    wait::holds,
};

/// Nonsense about one node.
const ITEMS: [BadAnswer; 8] = [
    BadAnswer::OversizedStrings,
    BadAnswer::MissingResult,
    BadAnswer::DuplicateResult,
    BadAnswer::BadLabel,
    BadAnswer::WrongPrefix,
    BadAnswer::EmptyProviderId,
    BadAnswer::StaleAbsence,
    BadAnswer::Empty,
];

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
    let event = stage.event(&second, "DuplicateProviderID").await;
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
    const NODES: usize = 24;
    let mut stage = Setup::mock(&["--synthesize-instances", "--max-batch-size=8", "--seed=7"])
        .start()
        .await;
    let pid = stage.controller.pid();
    for bad in ITEMS {
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
