//! Services that another client releases while they stay.

use serde_json::Value;

use super::*;
use outrigger_runtime::fixture::Warnings;

/// Replaces the whole Service, like a manifest without finalizers.
fn replaced(web: &mut Value) {
    web["metadata"]["finalizers"] = json!([]);
    web["spec"]["type"] = json!("ClusterIP");
}

fn finalizers(rig: &Rig) -> usize {
    let web = rig.cluster.service(WEB).unwrap();
    web["metadata"]["finalizers"].as_array().unwrap().len()
}

/// Not Q-5.
#[tokio::test(start_paused = true)]
async fn one_that_loses_type_and_finalizer_in_one_write_loses_its_load_balancer() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.fail(Method::DeleteLoadBalancer, trouble());
    rig.cluster.change_service(WEB, replaced);
    secs(20).await;
    assert_eq!(rig.cloud.load_balancers().len(), 1);
    rig.cloud.clear_faults();
    rig.until("its end", |rig| rig.cloud.load_balancers().is_empty())
        .await;
    secs(1).await;
    let before = (rig.mutations(), rig.events());
    assert_eq!(before.1.last().unwrap(), "DeletedLoadBalancer");
    secs(600).await;
    assert_eq!((rig.mutations(), rig.events()), before);
}

/// The API server has to confirm it first.
#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_keeps_it_until_it_can_and_the_log_says_so() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.cluster.refuse("/services/web", 403, usize::MAX);
    rig.cluster.change_service(WEB, replaced);
    secs(600).await;
    assert_eq!(rig.mutations(), 1);
    let lines = warnings.with("stays until the API server confirms that");
    // Once a minute.
    assert!((5..=11).contains(&lines.len()), "{lines:?}");
    rig.cluster.accept();
    // No longer than a deletion waits.
    secs(31).await;
    assert!(rig.cloud.load_balancers().is_empty());
}

/// Such a Service counts as gone: its current spec is not read any more.
#[tokio::test(start_paused = true)]
async fn one_that_was_held_keeps_it() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.cluster.change_service(WEB, |web| {
        web["metadata"]["annotations"]["outrigger.dev/paused"] = json!("true");
    });
    rig.cluster.change_service(WEB, replaced);
    secs(600).await;
    assert_eq!(rig.mutations(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_keeps_its_load_balancer() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.fail(Method::DeleteLoadBalancer, trouble());
    rig.cluster.change_service(WEB, replaced);
    secs(20).await;
    rig.cluster.change_service(WEB, |web| {
        web["spec"]["type"] = json!("LoadBalancer");
    });
    rig.cloud.clear_faults();
    rig.ready(WEB).await;
    let deletions = rig.calls("DeleteLoadBalancer");
    secs(600).await;
    assert_eq!((rig.cloud.load_balancers().len(), finalizers(&rig)), (1, 1));
    assert_eq!(rig.calls("DeleteLoadBalancer"), deletions);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_cleanup_leaves_nothing_behind() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    let retype = |kind| {
        rig.cluster
            .change_service(WEB, |web| web["spec"]["type"] = json!(kind));
    };
    retype("ClusterIP");
    rig.until("its end", |rig| finalizers(rig) == 0).await;
    secs(1).await;
    // Once it has one again, that may be left.
    retype("LoadBalancer");
    rig.ready(WEB).await;
    rig.cluster.change_service(WEB, replaced);
    secs(60).await;
    assert!(rig.cloud.load_balancers().is_empty());
    assert_eq!(rig.calls("DeleteLoadBalancer"), 2);
}
