//! Replicas whose provider is not there.

use std::time::Duration;

use outrigger_testbed::nodes::Machine;

use crate::{
    mock::instance,
    replica::LEASE,
    stage::Setup,
    wait::{holds, stays},
};

const A_WHILE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_replica_whose_provider_is_not_there_does_not_contend() {
    let cluster = Setup::without_provider()
        .flag("--leader-elect-retry-period=200ms")
        .prepare()
        .await;
    let mut without = cluster.part("without").without_provider().start().await;
    without.controller.says(&["no provider answers"]).await;
    let mut with = cluster.replica("with").await;
    with.leads().await;
    with.own_node(&cluster, "first").await;
    cluster.initialized("first").await;
    // The Lease is free, and no replica without a provider takes it.
    with.controller.terminate().await;
    stays("the lease is free", A_WHILE, async || {
        let holder = cluster.lease(LEASE).await.holder_identity;
        holds(holder.as_deref() == Some(""), || format!("{holder:?}"))
    })
    .await;
    assert!(without.claims(LEASE).is_empty());
    without.mock.start(&[]).await;
    without.leads().await;
    without.own_node(&cluster, "second").await;
    cluster.initialized("second").await;
}
