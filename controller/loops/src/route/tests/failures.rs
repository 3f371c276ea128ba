//! Calls that fail.

use outrigger_core::cluster_uid::ClusterUid;
use outrigger_provider_mock::{Respelled, faults::InjectedError};
use tonic::Code;

use super::*;

/// An error that time heals, with the provider's word.
pub(super) fn cloud_error() -> InjectedError {
    InjectedError::new(Code::Internal).with_reason("CLOUD_ERROR")
}

/// Q-10, Q-36, R-30: it is tried again, with the same text.
#[tokio::test(start_paused = true)]
async fn a_route_that_cannot_be_made_is_tried_again() {
    let warnings = Warnings::listen();
    let fixture = Rig::with([routed("a", 1, &[A])], []).prepare();
    let error = cloud_error();
    inject(&fixture, Method::CreateRoute, Effect::Error(error), 3);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(condition(&fixture, "a").as_deref(), NOT_CREATED);
    fixture.settle().await;
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(asked(&fixture, "CreateRoute"), 1);
    let events = fixture.events();
    assert!(
        events.iter().all(|reason| reason == "FailedToCreateRoute"),
        "{events:?}"
    );
    assert!(!events.is_empty());
    let text = "Could not create route uid-a 10.244.1.0/24 for node a: ";
    let messages = fixture.cluster.event_messages();
    let is_steady = |message: &String| message.starts_with(text) && *message == messages[0];
    assert!(messages.iter().all(is_steady), "{messages:?}");
    assert_eq!(messages.len(), 3);
    // One log line for the three, so their texts are equal.
    assert_eq!(warnings.with("route cannot be created").len(), 1);
    let class = r#"outrigger_node_route_failures_total{operation="create",class="transient"} 3"#;
    assert!(fixture.metrics().contains(class), "{}", fixture.metrics());
}

/// R-42: a cloud that was away for lists too has its routes made once it is listed again, not after the back-off of
/// each.
#[tokio::test(start_paused = true)]
async fn a_list_that_succeeds_again_wakes_routes_that_could_not_be_made() {
    let rig = Rig {
        period: Duration::from_secs(10),
        ..Rig::with([routed("a", 1, &[A])], [])
    };
    let fixture = rig.begun().await;
    let fault = |method, error| {
        fixture
            .cloud
            .inject(Fault::on(method, Effect::Error(error)));
    };
    fault(Method::ListRoutes, cloud_error());
    fault(Method::CreateRoute, cloud_error());
    fixture.register(routed("c", 3, &["10.244.3.0/24"]));
    tokio::time::sleep(Duration::from_secs(350)).await;
    assert_eq!(condition(&fixture, "c").as_deref(), NOT_CREATED);
    fixture.cloud.clear_faults();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(
        routes(&fixture),
        ["10.244.1.0/24 a 192.168.0.1", "10.244.3.0/24 c 192.168.0.3"]
    );
}

/// Many unknown results share a list.
#[tokio::test(start_paused = true)]
async fn unknown_results_share_a_list() {
    let cidr = |n: usize| format!("10.244.{n}.0/24");
    let node = |n| routed(&format!("n{n}"), 1, &[&cidr(n)]);
    let fixture = Rig::with((0..50).map(node).collect::<Vec<_>>(), []).prepare();
    inject(&fixture, Method::CreateRoute, Effect::LoseReply, 10);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    fixture.cloud.clear_faults();
    fixture.settle().await;
    assert_eq!(routes(&fixture).len(), 50);
    assert_eq!(asked(&fixture, "CreateRoute"), 50);
    let listed = lists(&fixture);
    assert!((2..=12).contains(&listed), "{listed}");
}

/// A route of ours that came after the last list, such as by a late call of the leader before, is in the way: a list shows
/// it.
#[tokio::test(start_paused = true)]
async fn a_route_in_the_way_is_looked_for() {
    let fixture = Rig::default().begun().await;
    add(&fixture, route(A, "gone", 9));
    fixture.register(routed("a", 1, &[A]));
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    assert_eq!(lists(&fixture), 2);
    // A route that no list shows.
    let foreign = Route {
        cluster: None,
        ..route("10.244.2.0/24", "gone", 9)
    };
    add(&fixture, foreign);
    fixture.register(routed("b", 2, &["10.244.2.0/24"]));
    fixture.settle().await;
    assert_eq!(condition(&fixture, "b").as_deref(), NOT_CREATED);
    assert!(asked(&fixture, "CreateRoute") >= 5);
    assert!(lists(&fixture) <= 2 + asked(&fixture, "CreateRoute"));
}

/// A bad request is repeated only for another Node, or another process of the provider.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_provider_cannot_use_waits_for_another_process() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).prepare();
    let error = InjectedError::new(Code::InvalidArgument).with_reason("INVALID_REQUEST");
    inject(&fixture, Method::CreateRoute, Effect::Error(error), 1);
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), [""; 0]);
    assert_eq!(fixture.events(), ["FailedToCreateRoute"]);
    assert_eq!(condition(&fixture, "a").as_deref(), NOT_CREATED);
    fixture.cluster.change_node("a", |node| {
        node["metadata"]["labels"] = json!({"a": "b"});
    });
    fixture.refresh("a");
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
}

/// Without the UID the provider may list no route of this cluster: a stale one must not wait for the period.
#[tokio::test(start_paused = true)]
async fn routes_are_listed_again_as_soon_as_the_uid_of_the_cluster_is_known() {
    let stale = route("10.244.7.0/24", "gone", 9);
    let fixture = Rig::with([routed("a", 1, &[A])], [stale]).prepare();
    fixture
        .provider
        .set_cluster_uid(ClusterUid::judge(None, None));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.7.0/24 gone 192.168.0.9"]);
    let listed = lists(&fixture);
    let uid = ClusterUid::judge(Some(CLUSTER), None);
    fixture.provider.set_cluster_uid(uid);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(lists(&fixture), listed + 1);
}

/// R-1.
#[tokio::test(start_paused = true)]
async fn a_provider_without_routes_is_warned_about_once() {
    let warnings = Warnings::listen();
    let mut fixture = Fixture::new(Setup::default());
    let inputs = subscribe(&fixture.nodes, &fixture.queues);
    let range = RouteRange {
        cidr: Cidr::parse("10.244.0.0/16").unwrap(),
        node_prefix: None,
    };
    let settings = RouteSettings {
        ranges: [range].into(),
        period: PERIOD,
        selector: None,
    };
    let metrics = RouteMetrics::register(&mut fixture.registry);
    fixture.host(COMPONENT, inputs, move |context| {
        NodeRoute::new(context, settings.clone(), metrics.clone())
    });
    fixture.register(routed("a", 1, &[A]));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(warnings.with("no Node gets a route").len(), 1);
    assert_eq!(lists(&fixture), 0);
    assert_eq!(fixture.api_writes(), [""; 0]);
}

/// The answer to the own creation, or the list after it, names the Node otherwise than the Node itself.
#[tokio::test(start_paused = true)]
async fn a_route_that_is_shown_with_another_target_than_it_was_made_with_stays() {
    for (target, respelled) in [
        (ListedTarget::ProviderId, Respelled::ProviderId),
        (
            ListedTarget::NextHop,
            Respelled::NextHop("192.0.2.7".parse().unwrap()),
        ),
    ] {
        for bare_results in [false, true] {
            let served = ServedRoutes {
                target,
                respelled: Some(respelled),
                bare_results,
                ..ServedRoutes::default()
            };
            let rig = Rig::with([routed("a", 1, &[A])], []);
            let fixture = Rig { served, ..rig }.begun().await;
            next_list(&fixture).await;
            let case = format!("{target:?} {bare_results}");
            assert_eq!(changes(&fixture), 1, "{case}");
            assert_eq!(condition(&fixture, "a").as_deref(), CREATED, "{case}");
            assert_eq!(fixture.events(), [""; 0], "{case}");
        }
    }
}
