//! Faults of routes.

use std::time::Duration;

use outrigger_api::v1::route_result::Outcome;
use outrigger_provider_mock::ServedRoutes;
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use tonic::Code;

use crate::harness::reason;
use crate::routed::{Routed, outcomes, route};

fn bad(method: Method, what: BadAnswer) -> Fault {
    Fault::on(method, Effect::BadAnswer(what)).times(1)
}

/// A mock with two routes of one node.
async fn two_routes() -> Routed {
    let routed = Routed::start(ServedRoutes::default()).await;
    let routes = ["10.1.0.0/24", "10.1.1.0/24"].map(|cidr| route(cidr, "n-1"));
    routed.made(routes.to_vec()).await;
    routed
}

#[tokio::test(start_paused = true)]
async fn calls_about_routes_fail_hang_and_lose_their_replies() {
    let routed = Routed::start(ServedRoutes::default()).await;
    let cloud = &routed.mock.cloud;
    let routes = || vec![route("10.1.0.0/24", "n-1")];
    let error = InjectedError::new(Code::Unavailable);
    cloud.inject(Fault::on(Method::ListRoutes, Effect::Error(error)).times(1));
    let refused = routed.list().await.unwrap_err();
    assert_eq!(reason(&refused).as_deref(), Some("CLOUD_UNAVAILABLE"));

    let duration = Some(Duration::from_secs(30));
    cloud.inject(Fault::on(Method::BatchDeleteRoutes, Effect::Hang { duration }).times(1));
    let started = tokio::time::Instant::now();
    routed.delete(routes()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(30));

    cloud.inject(Fault::on(Method::BatchCreateRoutes, Effect::LoseReply).times(1));
    let lost = routed.create(routes()).await.unwrap_err();
    assert_eq!((lost.code(), reason(&lost)), (Code::Unknown, None));
    assert_eq!(cloud.routes().len(), 1, "it was served");
    // RTE-07.
    routed.made(routes()).await;
    assert_eq!(cloud.routes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_hangs_that_is_about_a_node() {
    let routed = Routed::start(ServedRoutes::default()).await;
    let duration = Some(Duration::from_secs(30));
    let hangs = Fault::on(Method::BatchCreateRoutes, Effect::Hang { duration });
    let of_node = hangs.for_node("n-2".parse().unwrap());
    routed.mock.cloud.inject(of_node);
    let create = async |nodes: &[&str]| {
        let started = tokio::time::Instant::now();
        let cidrs = (0..).map(|number| format!("10.1.{number}.0/24"));
        let routes = nodes.iter().zip(cidrs);
        let routes = routes.map(|(node, cidr)| route(&cidr, node));
        routed.create(routes.collect()).await.unwrap();
        started.elapsed().as_secs() >= 30
    };
    assert!(!create(&["n-1"]).await);
    assert!(create(&["n-1", "n-2"]).await);
}

#[tokio::test]
async fn one_route_of_a_batch_fails() {
    let routed = two_routes().await;
    let quota = || InjectedError::new(Code::ResourceExhausted).with_reason("QUOTA_EXCEEDED");
    let item = |method| Fault::on(method, Effect::ItemError(quota())).times(1);
    let one = || "10.1.1.9/24".parse().unwrap();
    let routes = || {
        ["10.1.0.0/24", "10.1.1.0/24"]
            .map(|cidr| route(cidr, "n-1"))
            .to_vec()
    };
    let cloud = &routed.mock.cloud;
    cloud.inject(item(Method::BatchCreateRoutes).for_route(one()));
    let results = routed.create(routes()).await.unwrap();
    assert_eq!(outcomes(&results)["10.1.0.0/24"].0, Code::Ok);
    let (code, reason) = &outcomes(&results)["10.1.1.0/24"];
    assert_eq!(
        (*code, reason.as_deref()),
        (Code::ResourceExhausted, Some("QUOTA_EXCEEDED"))
    );

    // By its node the first of both fails.
    cloud.inject(item(Method::BatchDeleteRoutes).for_node("n-1".parse().unwrap()));
    cloud.inject(item(Method::BatchDeleteRoutes).for_node("n-2".parse().unwrap()));
    let results = routed.delete(routes()).await.unwrap();
    let outcomes = outcomes(&results);
    let codes: Vec<_> = outcomes.values().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::ResourceExhausted, Code::Ok]);
}

#[tokio::test]
async fn results_about_routes_are_missing_double_foreign_misnamed_or_empty() {
    let routed = two_routes().await;
    let routes = || {
        ["10.1.0.0/24", "10.1.1.0/24"]
            .map(|cidr| route(cidr, "n-1"))
            .to_vec()
    };
    for (what, keys) in [
        (BadAnswer::MissingResult, &["10.1.0.0/24"][..]),
        (
            BadAnswer::DuplicateResult,
            &["10.1.0.0/24", "10.1.1.0/24", "10.1.1.0/24"],
        ),
        (
            BadAnswer::ForeignResult,
            &["10.1.0.0/24", "10.1.1.0/24", "192.0.2.0/24"],
        ),
        (BadAnswer::MalformedCidr, &["10.1.0.0/24", "pods/24"]),
        (BadAnswer::Empty, &["10.1.0.0/24", "10.1.1.0/24"]),
        (BadAnswer::OversizedStrings, &["10.1.0.0/24", "10.1.1.0/24"]),
    ] {
        let fault = bad(Method::BatchCreateRoutes, what);
        let one = fault.for_route("10.1.1.0/24".parse().unwrap());
        routed.mock.cloud.inject(one);
        let results = routed.create(routes()).await.unwrap();
        let mut came: Vec<_> = results.iter().map(|result| result.key.as_str()).collect();
        came.sort_unstable();
        assert_eq!(came, keys, "{what}");
        let empty = results.iter().filter(|result| result.outcome.is_none());
        assert_eq!(empty.count(), usize::from(what == BadAnswer::Empty));
        let long = |result: &&outrigger_api::v1::RouteResult| matches!(&result.outcome, Some(Outcome::Found(route)) if route.name.len() > 1_024);
        let is_long = what == BadAnswer::OversizedStrings;
        assert_eq!(results.iter().filter(long).count(), usize::from(is_long));
    }
    routed
        .mock
        .cloud
        .inject(bad(Method::BatchDeleteRoutes, BadAnswer::OversizedReply));
    let refused = routed.delete(routes()).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert!(routed.mock.cloud.routes().is_empty(), "it was served");
}

#[tokio::test]
async fn lists_of_routes_are_cut_off_or_wrong() {
    let routed = two_routes().await;
    let (good, _) = routed.list().await.unwrap();
    for (what, destinations, whole) in [
        (BadAnswer::Empty, &[][..], false),
        (BadAnswer::MissingResult, &["10.1.0.0/24"], true),
        (
            BadAnswer::DuplicateResult,
            &["10.1.0.0/24", "10.1.1.0/24", "10.1.1.0/24"],
            true,
        ),
        (BadAnswer::MalformedCidr, &["10.1.0.0/24", "pods/24"], true),
        (
            BadAnswer::MalformedAddress,
            &["10.1.0.0/24", "10.1.1.0/24"],
            true,
        ),
        (
            BadAnswer::OversizedStrings,
            &["10.1.0.0/24", "10.1.1.0/24"],
            true,
        ),
    ] {
        let fault = bad(Method::ListRoutes, what);
        let one = fault.for_route("10.1.1.0/24".parse().unwrap());
        routed.mock.cloud.inject(one);
        let (listed, complete) = routed.list().await.unwrap();
        let came: Vec<_> = listed
            .iter()
            .map(|one| one.destination_cidr.as_str())
            .collect();
        assert_eq!((&came[..], complete), (destinations, whole), "{what}");
        let last = listed.last();
        let malformed = last.is_some_and(|one| one.next_hop_ip == "999.0.2.1/33");
        assert_eq!(malformed, what == BadAnswer::MalformedAddress);
        let long = last.is_some_and(|one| one.node_name.len() > 253);
        assert_eq!(long, what == BadAnswer::OversizedStrings);
        assert_eq!(routed.list().await.unwrap(), (good.clone(), true));
    }
}

#[tokio::test]
async fn faults_of_routes_that_make_no_sense_are_refused() {
    let error = || Effect::Error(InjectedError::new(Code::Aborted));
    let to = || "10.1.0.0/24".parse().unwrap();
    for (fault, says) in [
        (
            Fault::on(Method::BatchCreateRoutes, error()).for_route(to()),
            "fail the item",
        ),
        (
            bad(Method::BatchGetInstances, BadAnswer::Empty).for_route(to()),
            "is not about routes",
        ),
        (
            Fault::on(Method::BatchCreateRoutes, error()).for_service("a/b"),
            "is not about a Service",
        ),
        (
            bad(Method::ListRoutes, BadAnswer::ForeignResult),
            "could be foreign-result",
        ),
        (
            bad(Method::BatchCreateRoutes, BadAnswer::MissingDisposition),
            "could be missing-disposition",
        ),
        (
            Fault::on(
                Method::ListRoutes,
                Effect::ItemError(InjectedError::new(Code::Aborted)),
            ),
            "no errors of single items",
        ),
    ] {
        let refused = fault.check().unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
}
