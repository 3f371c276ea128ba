//! Results of a batch of routes, legal or not.

use outrigger_api::{
    RpcStatus,
    v1::{
        self, BatchCreateRoutesResponse, KubernetesEffects, KubernetesEvent, RouteResult,
        route_result::Outcome,
    },
};
use outrigger_core::error_class::ErrorClass;
use prost::Message;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{
    fake::{Reply, done, refusal},
    rig::Rig,
    route_batches::{create_all, delete, wanted},
    secs,
};
use crate::{Error, RouteAnswer, admission::CallClass};

/// The status as one of a batch.
fn item(status: &Status) -> RpcStatus {
    let sent = RpcStatus::decode(status.details()).unwrap();
    RpcStatus {
        code: status.code() as i32,
        message: status.message().into(),
        details: sent.details,
    }
}

fn refused(reason: &str, code: Code) -> RpcStatus {
    item(&refusal(code, reason, None))
}

fn effects(reason: &str) -> KubernetesEffects {
    KubernetesEffects {
        events: vec![KubernetesEvent {
            r#type: "Warning".into(),
            reason: reason.into(),
            message: "m".into(),
        }],
        ..KubernetesEffects::default()
    }
}

/// Creates as many routes as there are `changes`: the results, each changed by its own.
async fn create_with(rig: &Rig, changes: &[fn(&mut RouteResult)]) -> Vec<RouteAnswer> {
    let scripted = changes.to_vec();
    rig.fake.routes.create.on(move |request| {
        let results = request.items.iter().zip(&scripted);
        let results = results.map(|(route, change)| {
            let mut result = done(route);
            change(&mut result);
            result
        });
        Reply::Say(BatchCreateRoutesResponse {
            results: results.collect(),
        })
    });
    create_all(rig, u32::try_from(changes.len()).unwrap()).await
}

/// The route of the result, as a list would show it.
fn shown(result: &RouteResult) -> v1::Route {
    v1::Route {
        name: "named".into(),
        destination_cidr: result.key.clone(),
        node_name: "node-1".into(),
        ..v1::Route::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_is_known_as_the_provider_shows_it() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let answers = create_with(
        &rig,
        &[
            |_| {},
            |result| result.outcome = Some(Outcome::Found(shown(result))),
            |result| result.effects = Some(effects("Slow")),
            // The loop checks that it leads to its Node.
            |result| {
                result.outcome = Some(Outcome::Found(v1::Route {
                    node_name: "node-x".into(),
                    ..shown(result)
                }));
            },
        ],
    )
    .await;
    let shown = answers[3].result.as_ref().unwrap();
    assert_eq!(shown.raw().node_name, "node-x");
    assert_eq!(answers[0].result, Ok(wanted(0).as_made()));
    let named = answers[1].result.as_ref().unwrap();
    assert_eq!(named.raw().name, "named");
    assert_eq!(answers[1].effects.events.len(), 0);
    assert_eq!(answers[2].effects.events[0].1, "Slow");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_breaks_the_contract_is_unknown_for_its_route_alone() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let changes: [fn(&mut RouteResult); 8] = [
        |_| {},
        |result| result.outcome = None,
        |result| result.outcome = Some(Outcome::Absent(v1::Absent::default())),
        |result| result.outcome = Some(Outcome::NotManaged(v1::NotManaged::default())),
        |result| result.key = "10.9.9.0/24".into(),
        // The same network in another spelling is no key.
        |result| result.key = "::ffff:10.0.5.0/120".into(),
        |result| {
            result.outcome = Some(Outcome::Found(v1::Route {
                destination_cidr: "10.9.9.0/24".into(),
                ..shown(result)
            }));
        },
        |result| {
            result.outcome = Some(Outcome::Found(v1::Route {
                next_hop_ip: "gateway".into(),
                ..shown(result)
            }));
        },
    ];
    let answers = create_with(&rig, &changes).await;
    assert_eq!(answers[0].result, Ok(wanted(0).as_made()));
    for (answer, says) in answers[1..].iter().zip([
        "without an outcome",
        "made, but not found",
        "made, but not found",
        "no result for the route",
        "no result for the route",
        "shown as the route to",
        "next_hop_ip",
    ]) {
        let error = answer.result.as_ref().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed);
        assert!(error.leaves_result_unknown());
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    let metrics = rig.metrics();
    assert!(
        metrics.contains("outrigger_provider_stray_results_total 2"),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_found_is_not_deleted() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    rig.fake.routes.delete.on(|request| {
        let results = request.items.iter().map(done).collect();
        Reply::Say(v1::BatchDeleteRoutesResponse { results })
    });
    let error = delete(&rig, 0).await.result.unwrap_err();
    assert!(
        error.to_string().contains("deleted, but not absent"),
        "{error}"
    );
    assert!(error.leaves_result_unknown());
}

#[tokio::test(start_paused = true)]
async fn two_results_for_a_route_leave_it_unknown() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    rig.fake.routes.create.on(|request| {
        let [one, other] = [&request.items[0], &request.items[1]].map(done);
        Reply::Say(BatchCreateRoutesResponse {
            results: vec![one.clone(), other, one],
        })
    });
    let answers = create_all(&rig, 2).await;
    let error = answers[0].result.as_ref().unwrap_err();
    assert!(error.to_string().contains("two results"), "{error}");
    assert!(error.leaves_result_unknown());
    assert!(answers[1].result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_route_is_its_own_with_its_effects() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let answers = create_with(
        &rig,
        &[
            |_| {},
            |result| {
                result.outcome = Some(Outcome::Error(refused(
                    "QUOTA_EXCEEDED",
                    Code::ResourceExhausted,
                )));
                result.effects = Some(effects("TableFull"));
            },
            |result| {
                let mut status = refused("CONFLICTING_RESOURCE", Code::FailedPrecondition);
                status.details.push(prost_types::Any {
                    type_url: "type.googleapis.com/cloudprovider.v1.KubernetesEffects".into(),
                    value: effects("Packed").encode_to_vec(),
                });
                result.outcome = Some(Outcome::Error(status));
            },
            |result| result.outcome = Some(Outcome::Error(refused("MADE_UP", Code::Internal))),
            |result| {
                result.outcome = Some(Outcome::Error(RpcStatus {
                    code: Code::Unimplemented as i32,
                    ..RpcStatus::default()
                }));
            },
            |result| {
                result.outcome = Some(Outcome::Error(RpcStatus {
                    code: Code::Internal as i32,
                    ..RpcStatus::default()
                }));
            },
        ],
    )
    .await;
    assert!(answers[0].result.is_ok());
    for (answer, class, is_unknown, event) in [
        (&answers[1], ErrorClass::Quota, false, Some("TableFull")),
        (&answers[2], ErrorClass::NotReady, false, Some("Packed")),
        // Its outcome is not known, but that of the call is.
        (&answers[3], ErrorClass::Transient, false, None),
        (&answers[4], ErrorClass::Transient, true, None),
        (&answers[5], ErrorClass::Transient, true, None),
    ] {
        let error = answer.result.as_ref().unwrap_err();
        assert_eq!(error.class(), class);
        assert_eq!(error.leaves_result_unknown(), is_unknown, "{error}");
        let events = &answer.effects.events;
        assert_eq!(events.first().map(|(_, reason, _)| &**reason), event);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_route_pauses_the_others_only_if_it_speaks_for_them() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let paused = async || {
        let started = Instant::now();
        rig.open(CallClass::Routes).await;
        started.elapsed().as_secs()
    };
    let ok: fn(&mut RouteResult) = |_| {};
    let unavailable: fn(&mut RouteResult) = |result| {
        result.outcome = Some(Outcome::Error(refused(
            "CLOUD_UNAVAILABLE",
            Code::Unavailable,
        )));
    };
    let missing: fn(&mut RouteResult) = |result| result.key.clear();
    let limited: fn(&mut RouteResult) = |result| {
        result.outcome = Some(Outcome::Error(refused(
            "RATE_LIMITED",
            Code::ResourceExhausted,
        )));
    };
    for (changes, pause) in [
        ([unavailable, ok], 0),
        // A route without a result may have been created.
        ([unavailable, missing], 0),
        ([unavailable, unavailable], 1),
        ([limited, ok], 30),
    ] {
        create_with(&rig, &changes).await;
        assert_eq!(paused().await, pause);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_call_is_that_of_each_route() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    rig.fake
        .routes
        .create
        .on(|_| Reply::Fail(refusal(Code::Aborted, "CONFLICT", None)));
    for answer in create_all(&rig, 3).await {
        let error = answer.result.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict);
        assert!(!error.leaves_result_unknown());
    }
    rig.fake
        .routes
        .create
        .on(|_| Reply::Fail(Status::internal("x")));
    for answer in create_all(&rig, 3).await {
        assert!(answer.result.unwrap_err().leaves_result_unknown());
    }
    rig.fake.routes.create.on(|_| Reply::Hang);
    let started = Instant::now();
    for answer in create_all(&rig, 3).await {
        let error = answer.result.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        assert!(error.leaves_result_unknown());
    }
    assert_eq!(started.elapsed(), secs(120));
}
