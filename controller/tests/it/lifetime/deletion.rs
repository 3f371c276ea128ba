//! When a node is deleted, and when not.

use std::time::Duration;

use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tokio::time::Instant;

use super::{SHUTDOWN, fleet, quick};
use crate::{
    look::{provider_id, reason, taints, uid},
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

const CONFIRM: &str = "outrigger.dev/confirm-deletions";

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
    let event = stage.event(&node, "DeletingNode").await;
    assert_eq!(
        event.message.as_deref(),
        Some("Deleting node n-00003 because it does not exist in the cloud provider")
    );
    let source = event.source.and_then(|source| source.component);
    assert_eq!(source.as_deref(), Some("cloud-node-lifecycle-controller"));
}

#[tokio::test]
async fn a_cloud_that_has_lost_everything_deletes_nothing_until_an_operator_says_so() {
    let stage = fleet(quick().flag("--node-deletion-window=1s"), 12).await;
    for n in 0..12 {
        stage.mock.delete(&format!("n-{n:05}")).await;
    }
    lost(&stage, 12).await;
    stays("all are held", Duration::from_secs(3), async || {
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
        let annotation = Some(&*deletions.to_string());
        stage.annotate_lease(CONFIRM, annotation).await;
    };
    let says = async |expected: &str| {
        stage.lease_says(expected).await;
        let annotations = stage.lease_annotations().await;
        assert!(!annotations.contains_key(CONFIRM), "{annotations:?}");
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
    stays("three more wait", Duration::from_secs(2), async || {
        let left = stage.named("n-").await.len();
        holds(left == 4, || format!("{left}"))
    })
    .await;
}

/// Two providers in one cluster, and nodes of neither.
#[tokio::test]
async fn each_provider_has_its_own_nodes_and_touches_no_other() {
    let backstage = Setup::default()
        .flags(&[
            "--node-monitor-period=200ms",
            "--controllers=cloud-node,cloud-node-lifecycle",
        ])
        .prepare()
        .await;
    let mut replicas = Vec::new();
    for name in ["red", "blue"] {
        let mut replica = backstage
            .part(name)
            .without_provider()
            .user(crate::plane::USER)
            .flag("--leader-elect=false")
            .flag(&format!("--node-selector=cloud={name}"))
            .flag(&format!("--cloud-provider={name}"))
            .start()
            .await;
        let provider = format!("--provider-name={name}");
        let args = [&provider, "--synthesize-instances", "--visibility-delay=0s"];
        replica.mock.start(&args.map(str::to_owned)).await;
        replicas.push(replica);
    }
    for name in ["red", "blue"] {
        backstage
            .register(&Machine::new(name).label("cloud", name))
            .await;
        // By which the provider shows that it finds instances.
        let another = Machine::new(format!("another-{name}"));
        backstage.register(&another.label("cloud", name)).await;
        let node = backstage.synced(name).await;
        let id = provider_id(&node).unwrap();
        assert!(id.starts_with(&format!("{name}://")), "{id}");
    }
    // On premises: no cloud, with an id of its own or none at all.
    let onprem = Machine::new("with-id")
        .provider_id("metal://1")
        .initialized();
    backstage.register(&onprem).await;
    backstage
        .register(&Machine::new("without-id").initialized())
        .await;
    for name in ["red", "blue", "with-id", "without-id"] {
        backstage.is_ready(name, "Unknown").await;
    }
    replicas[0].mock.delete("red").await;
    until("the red node is gone", async || {
        let nodes = backstage.nodes();
        let node = nodes.get_opt("red").await.unwrap();
        holds(node.is_none(), || "it is there".to_owned())
    })
    .await;
    stays(
        "the others are left alone",
        Duration::from_secs(2),
        async || {
            for name in ["blue", "with-id", "without-id"] {
                let node = backstage.node(name).await;
                let tainted = taints(&node).contains(&SHUTDOWN.to_owned());
                holds(!tainted, || format!("{name} is tainted"))?;
            }
            Ok(())
        },
    )
    .await;
    for replica in &replicas {
        for name in ["with-id", "without-id"] {
            assert!(
                replica.writes_of(name).is_empty(),
                "{:?}",
                replica.writes_of(name)
            );
        }
    }
    assert!(replicas[0].writes_of("blue").is_empty());
    assert!(replicas[1].writes_of("red").is_empty());
}
