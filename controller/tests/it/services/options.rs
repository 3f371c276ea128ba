//! Options of a load balancer.

use serde_json::json;

use super::{DELETE, ENSURE, UPDATE, quick};
use crate::{
    cluster::services::{annotated, annotation},
    look::{
        services::{addresses_of, condition, condition_message},
        uid,
    },
};

const HOSTNAME: &str = "outrigger.dev/load-balancer-hostname";

const TYPO: &str = "outrigger.dev/load-balancer-host-name";

const PROXY: &str = "outrigger.dev/load-balancer-proxy-protocol";

#[tokio::test]
async fn a_service_with_a_host_name_shows_it_and_a_typo_is_refused_before_the_first_call() {
    let stage = quick(&[]).start().await;
    let service = stage
        .create_service(annotated("web", TYPO, "web.example.com"))
        .await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    assert!(event.message.unwrap().contains(TYPO));
    let refused = stage
        .service_that("web", "is not accepted", |service| {
            condition(service, "Accepted") == ("False", "UnsupportedOptions")
        })
        .await;
    let message = condition_message(&refused, "Accepted");
    for part in [TYPO, "web.example.com", "the options hostname"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(stage.mock.calls(ENSURE).await, 0);

    let right = json!({"metadata": {"annotations": {TYPO: null, HOSTNAME: "web.example.com"}}});
    stage.change_service("web", right).await;
    let served = stage.served("web").await;
    assert_eq!(addresses_of(&served), ["web.example.com"]);
    assert_eq!(condition(&served, "Accepted"), ("True", "Accepted"));
    assert_eq!(stage.mock.changes().await, [1, 0, 0]);

    // A load balancer that exists stays as it is, and gets its targets.
    stage
        .change_service("web", annotation(HOSTNAME, "10.0.0.1"))
        .await;
    stage
        .service_that("web", "is not accepted", |service| {
            condition(service, "Accepted") == ("False", "UnsupportedOptions")
        })
        .await;
    stage.delete_node("n-00001").await;
    stage.mock.sends_to(uid(&service), &["n-00000"]).await;
    stage.mock.was_called(UPDATE, 1).await;
    assert_eq!(
        addresses_of(&stage.service("web").await),
        ["web.example.com"]
    );

    // Without it the status has the addresses, after one Ensure.
    let none = json!({"metadata": {"annotations": {HOSTNAME: null}}});
    stage.change_service("web", none).await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    let addresses = [format!("{} VIP", made.addresses[0])];
    stage
        .service_that("web", "shows its addresses", |service| {
            addresses_of(service) == addresses
        })
        .await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);

    stage.change_service("web", annotation(TYPO, "x")).await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    assert_eq!(stage.mock.calls(DELETE).await, 1);
}

#[tokio::test]
async fn an_option_that_the_provider_serves_reaches_it() {
    let stage = quick(&[]).start().await;
    let service = stage.create_service(annotated("web", PROXY, "v2")).await;
    let served = stage.served("web").await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    let addresses = [format!("{} Proxy", made.addresses[0])];
    assert_eq!(addresses_of(&served), addresses);
    assert_eq!(stage.mock.changes().await, [1, 0, 0]);
}
