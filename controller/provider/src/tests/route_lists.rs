//! The list of all routes.

use outrigger_api::v1::{self, ListRoutesResponse};
use outrigger_core::error_class::ErrorClass;
use tonic::{Code, Status};

use super::{
    fake::{Step, refusal},
    rig::Rig,
    secs,
};
use crate::{Error, admission::CallClass};

fn part(cidrs: &[&str], complete: bool) -> Step<ListRoutesResponse> {
    let route = |cidr: &&str| v1::Route {
        destination_cidr: (*cidr).into(),
        node_name: "a".into(),
        ..v1::Route::default()
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
async fn a_route_that_breaks_the_contract_is_left_out_and_counted() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let listed = list(
        &rig,
        vec![part(&["10.0.0.0/24", "", "10.0.1.0/33", "fd00::/64"], true)],
    );
    assert_eq!(listed.await.unwrap(), ["10.0.0.0/24", "fd00::/64"]);
    let metrics = rig.metrics();
    assert!(
        metrics.contains("outrigger_provider_refused_routes_total 2"),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_pauses_calls_about_routes() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let refused = refusal(Code::Unavailable, "CLOUD_UNAVAILABLE", Some(secs(9)));
    let error = list(&rig, vec![Step::Fail(refused)]).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    let started = tokio::time::Instant::now();
    rig.open(CallClass::Routes).await;
    assert_eq!(started.elapsed(), secs(9));
    rig.open(CallClass::Instances).await;
}
