//! Routes that go, and routes that stay.

use super::*;

const A: &str = "10.244.1.0/24";

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
    fixture.nodes.delete("a", crate::kube::store::Origin::Watch);
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
        let asked = ["BatchDeleteRoutes", "BatchCreateRoutes"].map(|m| asked(&fixture, m));
        assert_eq!(asked, [1, 2], "{target:?}");
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
    inject(&fixture, Method::BatchDeleteRoutes, Effect::Error(error), 2);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 gone 192.168.0.9"]);
    assert_eq!(asked(&fixture, "BatchCreateRoutes"), 0);
    // no event, and tried again.
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(fixture.events(), [""; 0]);
}

/// what is not of this cluster, or not inside `--cluster-cidr`, is left alone.
#[tokio::test(start_paused = true)]
async fn foreign_routes_are_never_touched() {
    let of_another = Route {
        cluster: Some("another-cluster".to_owned()),
        ..route("10.244.7.0/24", "gone", 9)
    };
    let of_none = Route {
        cluster: None,
        ..route("10.244.8.0/24", "gone", 9)
    };
    let around = route("10.0.0.0/8", "gone", 9);
    let outside = route("192.0.2.0/24", "gone", 9);
    let foreign = [of_another, of_none, around, outside];
    let fixture = Rig::with([], foreign).begun().await;
    next_list(&fixture).await;
    assert_eq!(routes(&fixture).len(), 4);
    assert_eq!(changes(&fixture), 0);
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

/// A blackhole leads nowhere: nothing is lost by its deletion.
#[tokio::test(start_paused = true)]
async fn a_blackhole_is_made_again() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    change_route(&fixture, A, |route| route.blackhole = true);
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert!(!fixture.cloud.routes()[0].blackhole);
}

/// A list is the repair: another client has removed a route, and made one lead elsewhere.
#[tokio::test(start_paused = true)]
async fn changes_of_others_are_repaired_by_the_next_list() {
    let nodes = [routed("a", 1, &[A]), routed("b", 2, &["10.244.2.0/24"])];
    let fixture = Rig::with(nodes, []).begun().await;
    fixture.cloud.edit_routes(|table| {
        let name = table.to(A.parse().unwrap()).next().unwrap().name.clone();
        table.remove(&name).unwrap();
    });
    change_route(&fixture, "10.244.2.0/24", |route| {
        route.target.node = "a".to_owned();
    });
    next_list(&fixture).await;
    let both = ["10.244.1.0/24 a 192.168.0.1", "10.244.2.0/24 b 192.168.0.2"];
    assert_eq!(routes(&fixture), both);
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

///
#[tokio::test(start_paused = true)]
async fn a_route_made_with_other_addresses_is_made_again() {
    let rig = Rig::with([routed("a", 1, &[A])], []);
    let served = ServedRoutes {
        compared_addresses: true,
        ..ServedRoutes::default()
    };
    let fixture = Rig { served, ..rig }.begun().await;
    assert_eq!(changes(&fixture), 1);
    fixture.cluster.change_node("a", |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.168.0.7"}]);
    });
    fixture.refresh("a");
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.7"]);
    assert_eq!(changes(&fixture), 3);
}
