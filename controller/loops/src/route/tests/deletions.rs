//! Routes that go, and routes that stay.

use outrigger_core::event::EventContent;
use tokio::time::sleep;

use super::*;

/// etcd has gone back in time, and the Node may be one that was made since the backup.
#[tokio::test(start_paused = true)]
async fn the_route_of_a_node_that_is_lost_stays_for_an_hour() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.sight.doubt(EventContent::normal("Resync", "asked"));
    fixture.vanish("a");
    sleep(Duration::from_mins(59)).await;
    assert_eq!(routes(&fixture).len(), 1);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(routes(&fixture).len(), 0);
}

///
#[tokio::test(start_paused = true)]
async fn the_route_of_a_deleted_node_is_deleted() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.vanish("a");
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
    assert!(
        fixture
            .cluster
            .requests()
            .contains(&"GET /api/v1/nodes/a".to_owned())
    );
}

/// The store may be wrong; the API server's word counts.
#[tokio::test(start_paused = true)]
async fn a_node_that_only_the_store_lacks_keeps_its_route() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    let (changed, written) = (changes(&fixture), fixture.api_writes().len());
    fixture
        .nodes
        .delete("a", outrigger_kube::store::Origin::Watch);
    fixture.settle().await;
    assert_eq!(changes(&fixture), changed);
    // It is gone by the next list, though no watch has said so.
    fixture.cluster.delete_node("a");
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), [""; 0]);
    assert_eq!(fixture.api_writes().len(), written);
}

/// An API server that does not answer deletes nothing.
#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_api_server_a_stale_route_stays() {
    let fixture = Rig::with([], [route(A, "gone", 9)]).prepare();
    fixture.cluster.refuse("/nodes/gone", 500, 5);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(routes(&fixture).len(), 1);
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
}

/// A Node was made again under its name, with the CIDR it had, on another machine: the next hop is
/// replaced in one go, first the deletion, then the creation.
#[tokio::test(start_paused = true)]
async fn the_next_hop_of_a_replaced_machine_is_replaced() {
    for target in [
        ListedTarget::ProviderId,
        ListedTarget::NextHop,
        ListedTarget::All,
    ] {
        let rig = Rig::with([routed("a", 1, &[A])], []).listed_by(target);
        let fixture = rig.begun().await;
        fixture.vanish("a");
        let mut again = routed("a", 2, &[A]);
        again["metadata"]["uid"] = "another".into();
        again["spec"]["providerID"] = "mock://i-a2".into();
        fixture.register(again);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(
            routes(&fixture),
            ["10.244.1.0/24 a 192.168.0.2"],
            "{target:?}"
        );
        let calls = ["DeleteRoute", "CreateRoute"].map(|m| asked(&fixture, m));
        assert_eq!(calls, [1, 2], "{target:?}");
        fixture.settle().await;
        assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
        assert_eq!(fixture.events(), [""; 0]);
    }
}

/// while the deletion fails, nothing is created for its CIDR.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_before_the_deletion_succeeded() {
    let fixture = Rig::with([routed("a", 1, &[A])], [route(A, "gone", 9)]).prepare();
    let error = failures::cloud_error();
    inject(&fixture, Method::DeleteRoute, Effect::Error(error), 2);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 gone 192.168.0.9"]);
    assert_eq!(asked(&fixture, "CreateRoute"), 0);
    // no event, and tried again.
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(fixture.events(), [""; 0]);
}

/// A route that names nothing but a next hop leads to any Node: all of them are listed, once for all.
#[tokio::test(start_paused = true)]
async fn routes_without_a_node_share_one_list_of_all_nodes() {
    let cidr = |n: usize| format!("10.244.{n}.0/24");
    let stale: Vec<_> = (0..50).map(|n| route(&cidr(n), "gone", 9)).collect();
    let rig = Rig::with([routed("a", 1, &["10.244.99.0/24"])], stale);
    let fixture = rig.listed_by(ListedTarget::NextHop).begun().await;
    assert_eq!(routes(&fixture), ["10.244.99.0/24 a 192.168.0.1"]);
    let mut requests = fixture.cluster.requests();
    requests.retain(|request| request == "GET /api/v1/nodes");
    assert!((1..=2).contains(&requests.len()), "{}", requests.len());
}

/// The API server's answer is from before a pause of the calls, and no watch has told since.
#[tokio::test(start_paused = true)]
async fn after_a_pause_the_api_server_is_asked_again() {
    let fixture = Rig::with([routed("a", 1, &[A])], [route(A, "a", 1)])
        .begun()
        .await;
    let limited =
        outrigger_provider_mock::faults::InjectedError::new(tonic::Code::ResourceExhausted)
            .with_reason("RATE_LIMITED")
            .retry_after(Duration::from_mins(10));
    inject(&fixture, Method::CreateRoute, Effect::Error(limited), 1);
    fixture.register(routed("b", 2, &["10.244.2.0/24"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.vanish("a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.cluster.create_node(routed("a", 1, &[A]));
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(asked(&fixture, "CreateRoute"), 1);
    assert_eq!(asked(&fixture, "DeleteRoute"), 0);
}

/// with back-off, whatever the reason.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_refused_as_invalid_is_tried_again() {
    let fixture = Rig::with([], [route(A, "gone", 9)]).prepare();
    let error = outrigger_provider_mock::faults::InjectedError::new(tonic::Code::InvalidArgument)
        .with_reason("INVALID_REQUEST");
    inject(&fixture, Method::DeleteRoute, Effect::Error(error), 1);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
    assert_eq!(asked(&fixture, "DeleteRoute"), 1);
}

/// no deletion rests on a list without its end.
#[tokio::test(start_paused = true)]
async fn an_incomplete_list_deletes_nothing() {
    let fixture = Rig::with([], [route(A, "gone", 9)]).prepare();
    let bad = outrigger_provider_mock::faults::BadAnswer::Empty;
    inject(&fixture, Method::ListRoutes, Effect::BadAnswer(bad), 4);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(lists(&fixture) >= 2, "it is tried again");
    assert_eq!(routes(&fixture).len(), 1);
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
    assert!(lists(&fixture) <= 7, "with back-off");
}
