//! A provider that lies: no node is changed wrongly, and it heals.

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_testbed::nodes::Machine;

use crate::{
    look::{is_tainted, provider_id},
    stage::Setup,
};

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
