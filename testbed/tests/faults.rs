//! The proxy that fails on demand.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::time::Duration;

use futures::TryStreamExt;
use http::Method;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use outrigger_testbed::{
    ControlPlane,
    faults::{Cut, Fault, FaultProxy, Outcome, Rule},
    shared,
};
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(20);

async fn proxy() -> (&'static ControlPlane, FaultProxy) {
    let plane = shared().await.unwrap();
    let proxy = FaultProxy::start(plane).await.unwrap();
    (plane, proxy)
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("not an answer: {other}"),
    }
}

/// The events of a watch until it ends: names, or the codes of ERROR events.
async fn watch(maps: &Api<ConfigMap>) -> (Vec<String>, kube::Result<()>) {
    let mut events = Vec::new();
    let stream = maps.watch(&WatchParams::default(), "0").await.unwrap();
    let all = stream.try_for_each(|event| {
        match event {
            WatchEvent::Added(map) => {
                events.extend(map.metadata.name);
            }
            WatchEvent::Error(status) => events.push(status.code.to_string()),
            _ => {}
        }
        std::future::ready(Ok(()))
    });
    let end = timeout(DEADLINE, all)
        .await
        .expect("the watch does not end");
    (events, end)
}

#[tokio::test]
async fn a_limit_is_answered_with_retry_after_and_reaches_no_api_server() {
    let (plane, proxy) = proxy().await;
    let rule = Rule::new(Fault::too_many_requests(7)).writes().times(2);
    let injected = proxy.inject(rule);
    let maps_through = maps(proxy.client().unwrap());

    for _ in 0..2 {
        let error = create(&maps_through, "limited").await.unwrap_err();
        let kube::Error::Api(status) = error else {
            panic!("{error}")
        };
        assert_eq!(status.code, 429);
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
    assert_eq!(
        code(maps(plane.client().unwrap()).get("limited").await),
        404
    );
    create(&maps_through, "limited").await.unwrap();
    assert_eq!(injected.hits(), 2);

    let requests = proxy.requests();
    let outcomes: Vec<_> = requests.iter().map(|r| (r.outcome, r.faulted)).collect();
    let answered = |code: u16, faulted| (Outcome::Answered(code.try_into().unwrap()), faulted);
    assert_eq!(
        outcomes,
        [
            answered(429, true),
            answered(429, true),
            answered(201, false)
        ]
    );
    assert_eq!(requests[0].method, Method::POST);
    assert_eq!(requests[0].path, "/api/v1/namespaces/default/configmaps");
    assert_eq!(requests[0].json()["metadata"]["name"], "limited");
}

#[tokio::test]
async fn every_status_arrives_as_the_api_servers_own() {
    let (_, proxy) = proxy().await;
    let maps = maps(proxy.client().unwrap());
    for (fault, expected) in [
        (Fault::conflict(), 409),
        (Fault::expired(), 410),
        (Fault::internal_error(), 500),
        (Fault::unavailable(), 503),
    ] {
        proxy.inject(Rule::new(fault).times(1));
        assert_eq!(code(maps.get("any").await), expected);
    }
    assert_eq!(code(maps.get("any").await), 404);
}

#[tokio::test]
async fn a_watch_is_cut_after_events_or_expires_in_the_stream() {
    let (plane, proxy) = proxy().await;
    for name in ["cut-a", "cut-b", "cut-c"] {
        create(&maps(plane.client().unwrap()), name).await.unwrap();
    }
    let maps = maps(proxy.client().unwrap());

    let fault = |cut| Fault::CutWatch { after: 1, cut };
    proxy.inject(Rule::new(fault(Cut::Clean)).times(1));
    let (events, end) = watch(&maps).await;
    assert_eq!(events.len(), 1);
    end.unwrap();

    // To kube this is a clean end, so the body itself is read.
    proxy.inject(Rule::new(fault(Cut::Abrupt)).times(1));
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0";
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let mut body = proxy
        .client()
        .unwrap()
        .send(request)
        .await
        .unwrap()
        .into_body();
    let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(String::from_utf8_lossy(&event).lines().count(), 1);
    body.frame().await.unwrap().unwrap_err();

    proxy.inject(Rule::new(Fault::CutWatch {
        after: 2,
        cut: Cut::Expired,
    }));
    let (events, end) = watch(&maps).await;
    assert_eq!((events.len(), &*events[2]), (3, "410"));
    end.unwrap();
}

#[tokio::test]
async fn a_lost_answer_has_its_effect() {
    let (plane, proxy) = proxy().await;
    proxy.inject(Rule::new(Fault::LoseAnswer).method(Method::POST));
    let error = create(&maps(proxy.client().unwrap()), "lost")
        .await
        .unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    maps(plane.client().unwrap()).get("lost").await.unwrap();

    proxy.clear_rules();
    let delete = DeleteParams::default();
    maps(proxy.client().unwrap())
        .delete("lost", &delete)
        .await
        .unwrap();
    let outcomes: Vec<_> = proxy.take_requests().iter().map(|r| r.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Lost, Outcome::Answered(http::StatusCode::OK)]
    );
}
