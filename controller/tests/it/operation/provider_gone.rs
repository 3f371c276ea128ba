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

/// The same with other times and a paused clock is in the tests of `app::lease_task`.
#[tokio::test]
#[ignore = "takes two minutes: a minute of grace, and the times of upstream's lease"]
async fn a_leader_whose_provider_stays_away_gives_the_lease_to_another_replica() {
    let cluster = Setup::without_provider().prepare().await;
    let mut first = cluster.replica("first").await;
    first.leads().await;
    let mut second = cluster.replica("second").await;
    second.follows(&mut first).await;
    let second_identity = second.identity().await;
    let leads = async || {
        let holder = cluster.lease(LEASE).await.holder_identity;
        holds(holder.as_deref() == Some(&*second_identity), || {
            format!("{holder:?}")
        })
    };

    first.mock.kill().await;
    second.mock.create(instance("moved")).await;
    cluster.register(&Machine::new("moved")).await;
    cluster.initialized("moved").await;
    leads().await.unwrap();
    // Back again: what went over stays there.
    first.mock.start(&[]).await;
    first.controller.says(&["provider ready", "after"]).await;
    stays("the lease stays", Duration::from_secs(35), leads).await;
    // And it is there when it is needed.
    first.own_node(&cluster, "back").await;
    second.controller.terminate().await;
    cluster.initialized("back").await;
}
