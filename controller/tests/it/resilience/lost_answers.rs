//! Writes that happen and whose answers get lost: what was done is not done again, and what follows
//! is done all the same.

use http::Method;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};

use crate::{
    look::{addresses, label, provider_id, reason},
    stage::{Setup, Stage},
};

/// Loses the answer to the first of these writes, and expects the node to end as it should.
async fn survives(stage: &Stage, name: &str, lost: Rule) {
    let lost = stage.proxy.inject(lost.times(1));
    let registered = stage.register(&Machine::new(name)).await;
    let node = stage.synced(name).await;
    assert_eq!(lost.hits(), 1, "{name}: no answer was lost");
    assert_eq!(node.metadata.uid, registered.metadata.uid);
    let id = stage.mock.provider_id(name).await;
    assert_eq!(provider_id(&node), Some(&*id), "{name}");
    assert!(
        label(&node, "topology.kubernetes.io/zone").is_some(),
        "{name}"
    );
    assert_eq!(addresses(&node).len(), 3, "{name}: {:?}", addresses(&node));
    let events = stage.events_of(&node).await;
    assert_eq!(
        events.iter().map(reason).collect::<Vec<_>>(),
        ["Synced"],
        "{name}"
    );
    assert_eq!(events[0].count, Some(1), "{name}");
}

#[tokio::test]
async fn of_the_patch_of_the_node() {
    let stage = Setup::synthesizing().start().await;
    let lost = Rule::new(Fault::LoseAnswer).method(Method::PATCH);
    survives(&stage, "lost", lost.path_ends("/lost")).await;
}

#[tokio::test]
async fn of_the_patch_of_its_status() {
    let stage = Setup::synthesizing().start().await;
    let lost = Rule::new(Fault::LoseAnswer).method(Method::PATCH);
    survives(&stage, "lost", lost.path_ends("/status")).await;
}

#[tokio::test]
async fn of_the_event() {
    let stage = Setup::synthesizing().start().await;
    let lost = Rule::new(Fault::LoseAnswer).method(Method::POST);
    survives(&stage, "lost", lost.path_ends("/events")).await;
}

#[tokio::test]
async fn of_many_writes_of_many_nodes() {
    const NODES: usize = 30;
    let stage = Setup::synthesizing().start().await;
    let lost = Rule::new(Fault::LoseAnswer)
        .method(Method::PATCH)
        .path_contains("/nodes/");
    let lost = stage.proxy.inject(lost.chance(0.4, 3));
    stage.register_all(Machine::numbered("many-", NODES)).await;
    for node in stage.all_synced("many-", NODES).await {
        let name = node.metadata.name.as_deref().unwrap();
        assert_eq!(addresses(&node).len(), 3, "{name}");
        let events = stage.events_of(&node).await;
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0].count, Some(1), "{name}");
    }
    assert!(lost.hits() > NODES / 4, "{}", lost.hits());
}
