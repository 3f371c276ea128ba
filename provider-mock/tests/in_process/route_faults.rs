//! Faults of routes.

use std::time::Duration;

use outrigger_api::v1::Route;
use outrigger_provider_mock::ServedRoutes;
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use tonic::Code;

use crate::harness::reason;
use crate::routed::{Routed, route};

fn bad(method: Method, what: BadAnswer) -> Fault {
    Fault::on(method, Effect::BadAnswer(what)).times(1)
}

/// A mock with two routes of one node.
async fn two_routes() -> Routed {
    let routed = Routed::start(ServedRoutes::default()).await;
    for cidr in ["10.1.0.0/24", "10.1.1.0/24"] {
        routed.made(route(cidr, "n-1")).await;
    }
    routed
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_about_a_route_by_its_node_or_its_destination() {
    let routed = Routed::start(ServedRoutes::default()).await;
    let cloud = &routed.mock.cloud;
    let duration = Some(Duration::from_secs(30));
    let hangs = Fault::on(Method::CreateRoute, Effect::Hang { duration });
    cloud.inject(hangs.for_node("n-2".parse().unwrap()));
    let quota = InjectedError::new(Code::ResourceExhausted).with_reason("QUOTA_EXCEEDED");
    let full = Fault::on(Method::CreateRoute, Effect::Error(quota));
    cloud.inject(full.for_route("10.1.3.9/24".parse().unwrap()));
    let started = tokio::time::Instant::now();
    routed.made(route("10.1.1.0/24", "n-1")).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    routed.made(route("10.1.2.0/24", "n-2")).await;
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    let refused = routed
        .create(route("10.1.3.0/24", "n-1"))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused).as_deref(), Some("QUOTA_EXCEEDED"));
}

#[tokio::test]
async fn answers_about_routes_are_misnamed_empty_or_too_large() {
    let routed = two_routes().await;
    for (what, is_so) in [
        (
            BadAnswer::Empty,
            (|made| made.is_none()) as fn(Option<Route>) -> bool,
        ),
        (BadAnswer::MalformedCidr, |made| {
            made.is_some_and(|made| made.destination_cidr == "pods/24")
        }),
        (BadAnswer::OversizedStrings, |made| {
            made.is_some_and(|made| made.name.len() > 1_024)
        }),
    ] {
        let fault = bad(Method::CreateRoute, what);
        let one = fault.for_route("10.1.1.0/24".parse().unwrap());
        routed.mock.cloud.inject(one);
        for (cidr, is_bad) in [("10.1.0.0/24", false), ("10.1.1.0/24", true)] {
            let made = routed.create(route(cidr, "n-1")).await.unwrap().found;
            assert_eq!(is_so(made), is_bad, "{what}");
        }
    }
    let cloud = &routed.mock.cloud;
    cloud.inject(bad(Method::DeleteRoute, BadAnswer::OversizedReply));
    let refused = routed
        .delete(route("10.1.0.0/24", "n-1"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(cloud.routes().len(), 1, "it was served");
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
