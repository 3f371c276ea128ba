//! No change of the cloud for a cluster that is not certain.

use outrigger_api::v1;
use outrigger_core::{cluster_uid::ClusterUid, error_class::ErrorClass};
use tokio::time::sleep;

use super::{
    rig::{Rig, service, targets},
    routes::{create, delete},
    secs,
};
use crate::{
    Error, Options,
    tests::fake::{Fake, Reply, handshake},
};

/// With a provider that serves load balancers and routes, and these options.
async fn balancing(change: impl FnOnce(&mut Options)) -> Rig {
    let rig = Rig::with(|options: &mut Options, fake: &Fake| {
        change(options);
        fake.introduce(|answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability::default());
            offered.routes = Some(v1::RoutesCapability::default());
        });
    });
    rig.wait_until_serving().await;
    rig
}

async fn changes(rig: &Rig) -> [Result<(), Error>; 5] {
    let (web, all) = (service("web"), targets(["a"]));
    let (ensured, updated, deleted, made, removed) = tokio::join!(
        rig.provider.ensure_alone(&web, &all),
        rig.provider.update_alone(&web, &all),
        rig.provider.delete_alone(&web),
        create(rig, 0),
        delete(rig, 0),
    );
    let [ensured, updated, deleted] = [ensured, updated, deleted].map(|result| result.map(drop));
    let [made, removed] = [made, removed].map(|answer| answer.result.map(drop));
    [ensured, updated, deleted, made, removed]
}

fn made(rig: &Rig) -> usize {
    let balancers = &rig.fake.balancers;
    let routes = &rig.fake.routes;
    balancers.ensure.calls().len()
        + balancers.update.calls().len()
        + balancers.delete.calls().len()
        + routes.create.calls().len()
        + routes.delete.calls().len()
}

#[tokio::test(start_paused = true)]
async fn without_the_clusters_uid_nothing_in_the_cloud_is_changed() {
    let rig = balancing(|options| options.cluster_uid.clear()).await;
    for result in Box::pin(changes(&rig)).await {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unidentified { .. }), "{error}");
        assert!(!error.leaves_result_unknown());
        // The owner gets an event with the remedy.
        assert_eq!(error.class(), ErrorClass::Forbidden);
        assert!(error.to_string().contains("kube-system"), "{error}");
        assert!(
            error.to_string().contains("--allow-untagged-cloud"),
            "{error}"
        );
    }
    assert_eq!(made(&rig), 0);
    // To look is no change.
    rig.look_up("a").await.unwrap();
    let (web, all) = (service("web"), targets(["a"]));
    rig.provider.load_balancers().get(&web, &all).await.unwrap();

    // It becomes known: the provider gets it in a handshake, and in each call.
    let uid = ClusterUid::judge(Some("uid-2"), None);
    rig.provider.set_cluster_uid(uid);
    sleep(secs(1)).await;
    for result in Box::pin(changes(&rig)).await {
        result.unwrap();
    }
    let handshakes = rig.fake.handshake.calls();
    let sent: Vec<_> = handshakes
        .iter()
        .map(|(_, request)| &*request.cluster.as_ref().unwrap().uid)
        .collect();
    assert_eq!(sent, ["", "uid-2"]);
    let (_, ensured) = &rig.fake.balancers.ensure.calls()[0];
    assert_eq!(ensured.context.as_ref().unwrap().cluster_uid, "uid-2");
}

#[tokio::test(start_paused = true)]
async fn a_uid_that_becomes_known_during_a_handshake_is_sent_before_the_first_call() {
    let rig = Rig::with(|options: &mut Options, fake: &Fake| {
        options.cluster_uid.clear();
        fake.handshake
            .on(|_| Reply::After(secs(5), Box::new(Reply::Say(handshake()))));
    });
    sleep(secs(2)).await;
    rig.provider
        .set_cluster_uid(ClusterUid::judge(Some("uid-2"), None));
    rig.wait_until_serving().await;
    let sent = || -> Vec<String> {
        let handshakes = rig.fake.handshake.calls();
        let clusters = handshakes
            .iter()
            .filter_map(|(_, request)| request.cluster.clone());
        clusters.map(|cluster| cluster.uid).collect()
    };
    assert_eq!(sent(), ["", "uid-2"]);
    sleep(secs(60)).await;
    assert_eq!(sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_untagged_cloud_may_be_allowed_but_another_cluster_may_not() {
    let rig = balancing(|options| {
        options.cluster_uid.clear();
        options.allow_untagged = true;
    })
    .await;
    for result in Box::pin(changes(&rig)).await {
        result.unwrap();
    }
    let before = made(&rig);
    let other = ClusterUid::judge(Some("uid-2"), Some("uid-1"));
    rig.provider.set_cluster_uid(other);
    for result in Box::pin(changes(&rig)).await {
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("uid-1") && error.contains("uid-2"),
            "{error}"
        );
    }
    assert_eq!(made(&rig), before);
    let state = r#"outrigger_cluster_uid{state="contradicted"} 1"#;
    assert!(rig.metrics().contains(state));
}
