//! Calls about routes: changes, answers to them, and the list.

use std::time::Duration;

use futures::future::join_all;
use outrigger_api::v1::{
    self, CreateRouteResponse, KubernetesEffects, KubernetesEvent, ListRoutesResponse, Route,
};
use outrigger_core::{
    cidr::Cidr, effects::RawEffects, error_class::ErrorClass, node::NodeAddress, route::WantedRoute,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::{
    fake::{Reply, Step, done, gone, refusal, with_effects},
    rig::Rig,
    secs,
};
use crate::{Error, RouteAnswer, admission::CallClass};

/// The route to Node `node-<n>`, 10.<n / 256>.<n % 256>.0/24.
pub(super) fn wanted(n: u32) -> WantedRoute {
    WantedRoute {
        destination: Cidr::parse(&format!("10.{}.{}.0/24", n / 256, n % 256)).unwrap(),
        node_name: format!("node-{n}").into(),
        node_uid: format!("uid-{n}").into(),
        provider_id: format!("fake://{n}").into(),
        node_addresses: [NodeAddress {
            kind: "InternalIP".into(),
            address: "192.168.0.1".into(),
        }]
        .into(),
    }
}

pub(super) async fn create(rig: &Rig, n: u32) -> RouteAnswer {
    rig.provider.routes().create(wanted(n), || true).await
}

pub(super) async fn delete(rig: &Rig, n: u32) -> RouteAnswer {
    rig.provider
        .routes()
        .delete(wanted(n).as_made(), || true)
        .await
}

/// A list of one route.
pub(super) fn one_list() -> Vec<Step<ListRoutesResponse>> {
    vec![Step::Say(ListRoutesResponse {
        items: vec![Route {
            destination_cidr: "10.0.0.0/24".into(),
            ..Route::default()
        }],
        complete: true,
    })]
}

/// With a provider that takes so many calls at a time, and each takes a second.
pub(super) async fn slow(max_in_flight: u32) -> Rig {
    let rig = Rig::routing(v1::RoutesCapability { max_in_flight }).await;
    let create = |_: &_| Reply::After(secs(1), Box::new(Reply::Say(done())));
    rig.fake.routes.create.on(create);
    let delete = |_: &_| Reply::After(secs(1), Box::new(Reply::Say(gone())));
    rig.fake.routes.delete.on(delete);
    rig
}

#[tokio::test(start_paused = true)]
async fn a_route_goes_out_at_once_with_all_that_the_cloud_needs() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let started = Instant::now();
    let route = create(&rig, 1).await.result.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(route, wanted(1).as_made());
    let (_, request) = rig.fake.routes.create.calls().remove(0);
    assert_eq!(request.context.unwrap().cluster_uid, "uid-1");
    let sent = Route {
        destination_cidr: "10.0.1.0/24".into(),
        node_name: "node-1".into(),
        provider_id: "fake://1".into(),
        node_addresses: vec![v1::NodeAddress {
            r#type: "InternalIP".into(),
            address: "192.168.0.1".into(),
        }],
        node_uid: "uid-1".into(),
        ..Route::default()
    };
    assert_eq!(request.route, Some(sent));
}

#[tokio::test(start_paused = true)]
async fn a_route_is_deleted_exactly_as_the_provider_named_it() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let named = Route {
        name: "route-7".into(),
        destination_cidr: "fd00::0:1:0/112".into(),
        next_hop_ip: "::ffff:192.168.0.1".into(),
        blackhole: true,
        compare_node_addresses: true,
        ..Route::default()
    };
    rig.fake.routes.on_list(vec![Step::Say(ListRoutesResponse {
        items: vec![named.clone()],
        complete: true,
    })]);
    let route = rig.provider.routes().list().await.unwrap().remove(0);
    let answer = rig.provider.routes().delete(route.clone(), || true).await;
    assert_eq!(answer.result, Ok(route));
    let (_, request) = rig.fake.routes.delete.calls().remove(0);
    assert_eq!(request.route, Some(named));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_in_flight_than_declared() {
    for (max_in_flight, took) in [(1, 20), (10, 2), (0, 2)] {
        let rig = slow(max_in_flight).await;
        let started = Instant::now();
        let creations = join_all((0..10).map(|n| create(&rig, n)));
        let deletions = join_all((10..20).map(|n| delete(&rig, n)));
        let half = secs(1) / 2;
        let listed = async {
            sleep(half).await;
            rig.fake.routes.on_list(one_list());
            rig.provider.routes().list().await.unwrap();
            started.elapsed()
        };
        let (_, _, listed) = tokio::join!(creations, deletions, listed);
        assert_eq!(started.elapsed(), secs(took), "{max_in_flight}");
        // A list does not count.
        assert_eq!(listed, half);
    }
}

fn effects() -> KubernetesEffects {
    KubernetesEffects {
        events: vec![KubernetesEvent {
            r#type: "Warning".into(),
            reason: "Slow".into(),
            message: "m".into(),
        }],
        ..KubernetesEffects::default()
    }
}

async fn created_as(rig: &Rig, answer: CreateRouteResponse) -> RouteAnswer {
    let answer = move |_: &_| Reply::Say(answer.clone());
    rig.fake.routes.create.on(answer);
    create(rig, 0).await
}

fn found(route: Route) -> CreateRouteResponse {
    CreateRouteResponse {
        found: Some(route),
        effects: None,
    }
}

/// The route as a list would show it.
fn shown() -> Route {
    Route {
        name: "named".into(),
        destination_cidr: "10.0.0.0/24".into(),
        // The loop checks that it leads to its Node.
        node_name: "node-x".into(),
        ..Route::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_is_known_as_the_provider_shows_it() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let unnamed = created_as(&rig, done()).await;
    assert_eq!(unnamed.result, Ok(wanted(0).as_made()));
    let named = created_as(&rig, found(shown())).await.result.unwrap();
    let named = named.raw();
    assert_eq!((&*named.name, &*named.node_name), ("named", "node-x"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_the_contract_leaves_the_route_unknown() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let elsewhere = Route {
        destination_cidr: "10.9.9.0/24".into(),
        ..shown()
    };
    let nowhere = Route {
        next_hop_ip: "gateway".into(),
        ..shown()
    };
    rig.fake
        .routes
        .delete
        .on(|_| Reply::Say(v1::DeleteRouteResponse::default()));
    for (answer, says) in [
        (
            created_as(&rig, CreateRouteResponse::default()).await,
            "made, but not found",
        ),
        (
            created_as(&rig, found(elsewhere)).await,
            "shown as the route to",
        ),
        (created_as(&rig, found(nowhere)).await, "next_hop_ip"),
        (delete(&rig, 0).await, "deleted, but not absent"),
    ] {
        let error = answer.result.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed);
        assert!(error.leaves_result_unknown());
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn effects_come_with_each_answer_and_with_an_error() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let made = CreateRouteResponse {
        effects: Some(effects()),
        ..done()
    };
    rig.fake.routes.delete.on(|_| {
        Reply::Say(v1::DeleteRouteResponse {
            effects: Some(effects()),
            ..gone()
        })
    });
    for answer in [created_as(&rig, made).await, delete(&rig, 0).await] {
        answer.result.unwrap();
        assert_eq!(answer.effects.events[0].1, "Slow");
    }
    let refused = refusal(Code::ResourceExhausted, "QUOTA_EXCEEDED", None);
    let refused = with_effects(&refused, "write.example/a");
    let refuse = move |_: &_| Reply::Fail(refused.clone());
    rig.fake.routes.create.on(refuse);
    let answer = create(&rig, 0).await;
    let error = answer.result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Quota);
    assert!(!error.leaves_result_unknown());
    assert_ne!(answer.effects, RawEffects::default());
}

fn part(cidrs: &[&str], complete: bool) -> Step<ListRoutesResponse> {
    let route = |cidr: &&str| Route {
        destination_cidr: (*cidr).into(),
        node_name: "a".into(),
        ..Route::default()
    };
    Step::Say(ListRoutesResponse {
        items: cidrs.iter().map(route).collect(),
        complete,
    })
}

async fn list(rig: &Rig, steps: Vec<Step<ListRoutesResponse>>) -> Result<Vec<String>, Error> {
    rig.fake.routes.on_list(steps);
    let listed = rig.provider.routes().list().await?;
    let spelled = listed.iter().map(|route| &route.raw().destination_cidr);
    Ok(spelled.cloned().collect())
}

#[tokio::test(start_paused = true)]
async fn a_list_of_routes_is_whole_or_an_error() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let listed = list(
        &rig,
        vec![
            part(&["10.0.0.0/24"], false),
            Step::Wait(secs(59)),
            part(&["10.0.1.0/24"], true),
        ],
    );
    assert_eq!(listed.await.unwrap(), ["10.0.0.0/24", "10.0.1.0/24"]);
    assert!(list(&rig, vec![part(&[], true)]).await.unwrap().is_empty());
    for broken in [
        vec![],
        vec![part(&["10.0.0.0/24"], false)],
        vec![part(&[], true), part(&["10.0.0.0/24"], true)],
    ] {
        let error = list(&rig, broken).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed);
    }
    let cut_off = Step::Fail(Status::internal("x"));
    let error = list(&rig, vec![part(&["10.0.0.0/24"], false), cut_off]).await;
    assert_eq!(error.unwrap_err().class(), ErrorClass::Transient);
    let silent = vec![part(&["10.0.0.0/24"], false), Step::Hang];
    let error = list(&rig, silent).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { after, .. } if after == secs(60)));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_breaks_the_contract_is_left_out() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let listed = list(
        &rig,
        vec![part(&["10.0.0.0/24", "", "10.0.1.0/33", "fd00::/64"], true)],
    );
    assert_eq!(listed.await.unwrap(), ["10.0.0.0/24", "fd00::/64"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_pauses_calls_about_routes() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let refused = refusal(Code::Unavailable, "CLOUD_UNAVAILABLE", Some(secs(9)));
    let error = list(&rig, vec![Step::Fail(refused)]).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    let started = Instant::now();
    rig.open(CallClass::Routes).await;
    assert_eq!(started.elapsed(), secs(9));
    rig.open(CallClass::Instances).await;
}
