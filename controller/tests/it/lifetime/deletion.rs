//! When a node is deleted, and when not.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;

use super::{fleet, quick};
use crate::{
    look::{reason, uid},
    replica::LEASE,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

async fn lost(stage: &Stage, count: usize) {
    for n in 0..count {
        stage.is_ready(&format!("n-{n:05}"), "Unknown").await;
    }
}

#[tokio::test]
async fn l7_a_node_whose_machine_is_gone_is_gone_within_30_s_at_the_default_periods() {
    let setup = Setup::mock(&["--synthesize-instances", "--visibility-delay=0s"]);
    let stage = fleet(setup, 10).await;
    let node = stage.node("n-00003").await;
    stage.mock.delete("n-00003").await;
    let began = Instant::now();
    stage.is_ready("n-00003", "Unknown").await;
    stage.has_left(9).await;
    let took = began.elapsed();
    println!("gone after {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");

    // this node as it was looked at, and no other of its name.
    let requests = stage.proxy.requests();
    let deletes: Vec<_> = requests.iter().filter(|r| r.method == "DELETE").collect();
    assert_eq!(deletes.len(), 1);
    let presumed = &deletes[0].json()["preconditions"];
    assert_eq!(presumed["uid"], json!(uid(&node)));
    assert!(presumed["resourceVersion"].is_string(), "{presumed}");
    until("the event", async || {
        let events = stage.events_of(&node).await;
        let event = events.iter().find(|event| reason(event) == "DeletingNode");
        let event = event.ok_or("no event")?;
        assert_eq!(
            event.message.as_deref(),
            Some("Deleting node n-00003 because it does not exist in the cloud provider")
        );
        let source = event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref());
        assert_eq!(source, Some("cloud-node-lifecycle-controller"));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_cloud_that_has_lost_everything_deletes_nothing_until_a_person_says_so() {
    let stage = fleet(quick().flag("--node-deletion-window=1s"), 12).await;
    for n in 0..12 {
        stage.mock.delete(&format!("n-{n:05}")).await;
    }
    lost(&stage, 12).await;
    stays("all are held", Duration::from_secs(4), async || {
        let left = stage.named("n-").await.len();
        holds(left == 12, || format!("{left}"))
    })
    .await;
    let confirm = json!({"metadata": {"labels": {"outrigger.dev.node-restriction.kubernetes.io/confirm-deletion": "true"}}});
    stage.merge("n-00004", confirm).await;
    stage.has_left(11).await;
}

#[tokio::test]
async fn one_act_on_the_lease_confirms_all_deletions_that_are_withheld_and_is_spent() {
    // All eight are silent before the second answer about any.
    let setup = Setup::mock(&["--synthesize-instances", "--visibility-delay=0s"]);
    let stage = fleet(setup.flag("--leader-elect=true"), 12).await;
    for n in 0..8 {
        stage.mock.delete(&format!("n-{n:05}")).await;
    }
    lost(&stage, 8).await;
    let annotate = async |deletions: usize| {
        let annotations = json!({"outrigger.dev/confirm-deletions": deletions.to_string()});
        let change = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let parameters = PatchParams::default();
        stage
            .leases()
            .patch(LEASE, &parameters, &change)
            .await
            .unwrap();
    };
    let on_lease: Api<Event> = Api::namespaced(stage.admin(), "kube-system");
    let says = async |expected: &str| {
        until(expected, async || {
            let events = on_lease.list(&ListParams::default()).await.unwrap().items;
            let mut messages = events.iter().filter_map(|event| event.message.as_deref());
            holds(messages.any(|message| message.contains(expected)), || {
                format!("{events:?}")
            })
        })
        .await;
        let lease = stage.leases().get(LEASE).await.unwrap();
        let annotations = lease.metadata.annotations.unwrap_or_default();
        assert!(
            !annotations.contains_key("outrigger.dev/confirm-deletions"),
            "{annotations:?}"
        );
    };
    // Each of them has been judged with the others.
    let withheld = async || {
        let mut withheld = 0;
        for node in stage.named("n-").await {
            let events = stage.events_of(&node).await;
            let mut events = events.iter();
            withheld += usize::from(events.any(|event| reason(event) == "NodeDeletionWithheld"));
        }
        withheld
    };
    until("all are withheld", async || {
        let withheld = withheld().await;
        holds(withheld == 8, || format!("{withheld}"))
    })
    .await;
    annotate(7).await;
    says("8 deletions are withheld now, and it says 7").await;
    assert_eq!(stage.named("n-").await.len(), 12);
    annotate(8).await;
    says("confirms 8 deletions of Nodes").await;
    stage.has_left(4).await;

    // It was for those alone.
    for n in 8..11 {
        stage.mock.delete(&format!("n-{n:05}")).await;
        stage.is_ready(&format!("n-{n:05}"), "Unknown").await;
    }
    stays("three more wait", Duration::from_secs(3), async || {
        let left = stage.named("n-").await.len();
        holds(left == 4, || format!("{left}"))
    })
    .await;
}
