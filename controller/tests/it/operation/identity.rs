//! Which cluster this is, when the right to read it is taken away.

use std::time::Duration;

use outrigger_testbed::nodes::Machine;

use crate::{
    cluster::services::load_balancer,
    look::services::addresses_of,
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::Setup,
    wait::{holds, stays, until},
};

const FLAGS: [&str; 1] = ["--controllers=service-lb-controller"];

/// A provider without the UID takes its own load balancers for another cluster's.
#[tokio::test]
async fn a_uid_that_can_no_longer_be_read_is_remembered_by_the_lease() {
    let cluster = Setup::without_provider().flags(&FLAGS).prepare().await;
    let nodes = Machine::numbered("n-", 2).map(Machine::initialized);
    cluster.register_all(nodes).await;
    let mut first = cluster.replica("first").await;
    first.leads().await;
    cluster.create_service(load_balancer("web")).await;
    let made = async |name: &str| {
        until(&format!("the address of {name}"), async || {
            let service = cluster.service(name).await;
            holds(!addresses_of(&service).is_empty(), || "none".to_owned())
        })
        .await;
    };
    made("web").await;
    let before = first.mock.load_balancers().await;
    let uid = before[0].cluster.clone();
    first.controller.terminate().await;

    let user = "forgetful";
    let rights = Rights::documented(ALWAYS).of(user).without("namespaces");
    rights.grant(&cluster.plane).await;
    let mut second = cluster.part("second").user(user).start().await;
    second.leads().await;
    second
        .controller
        .says(&["the Lease remembers that it is", &uid])
        .await;
    cluster.create_service(load_balancer("db")).await;
    made("db").await;
    // Its cloud is a new one: what counts is whose load balancers it makes.
    let after = second.mock.load_balancers().await;
    assert!(after.iter().all(|one| one.cluster == uid), "{after:?}");
    second.controller.terminate().await;

    // Without that memory nothing in the cloud is changed, and the Service says why.
    let flag = "--leader-elect=false";
    let mut third = cluster.part("third").user(user).flag(flag).start().await;
    third
        .controller
        .says(&["nothing in the cloud is changed"])
        .await;
    let late = cluster.create_service(load_balancer("late")).await;
    until("an event that says what to do", async || {
        let events = cluster.events_of(&late).await;
        let said = events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("SyncLoadBalancerFailed")
                && message.contains("grant `get` on the namespace kube-system")
        });
        holds(said, || format!("{events:?}"))
    })
    .await;
    stays("nothing is made", Duration::from_secs(3), async || {
        let made = third.mock.load_balancers().await;
        holds(made.is_empty(), || format!("{made:?}"))
    })
    .await;
    // And it heals by itself.
    let full = Rights::documented(ALWAYS).of(user);
    full.grant(&cluster.plane).await;
    made("late").await;
    let healed = third.mock.load_balancers().await;
    assert!(healed.iter().all(|one| one.cluster == uid), "{healed:?}");
    full.revoke(&cluster.plane).await;
    assert_eq!(
        cluster.lease(LEASE).await.holder_identity.as_deref(),
        Some("")
    );
}
