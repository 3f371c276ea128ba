//! Two providers in one cluster, and nodes of neither: each controller touches its own alone.

use std::time::Duration;

use outrigger_testbed::nodes::Machine;

use super::SHUTDOWN;
use crate::{
    look::{provider_id, taints},
    stage::Setup,
    wait::{holds, stays},
};

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
    crate::wait::until("the red node is gone", async || {
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
                let tainted = taints(&node)
                    .iter()
                    .any(|taint| taint.starts_with(SHUTDOWN));
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
