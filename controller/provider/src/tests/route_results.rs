//! Answers about a route, legal or not.

use outrigger_api::v1::{self, CreateRouteResponse, KubernetesEffects, KubernetesEvent, Route};
use outrigger_core::{effects::RawEffects, error_class::ErrorClass};
use tonic::Code;

use super::{
    fake::{Reply, done, gone, refusal, with_effects},
    rig::Rig,
    route_calls::{create, delete, wanted},
};
use crate::RouteAnswer;

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
