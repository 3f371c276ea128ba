//! Mistakes about routes, one by one and in lists.

mod broken;

use std::collections::BTreeSet;

use outrigger_api::ListPage as _;
use outrigger_api::v1::{
    Absent, CreateRouteRequest, DeleteRouteRequest, DeleteRouteResponse, ErrorReason,
    ListRoutesRequest, ListRoutesResponse, Route,
};
use parking_lot::Mutex;
use tonic::Code;

use super::handshake::of_the_handshake;
use super::hook::{Next, On, context_of};
use super::{Defect, kept, refusal};
use crate::exchange::{Answer, Call};
use crate::faults::BadAnswer;

/// Beginning of a name that no Delete knows.
const OPERATION: &str = "operation-";

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        Defect::new("list-of-routes-never-complete").never_complete::<ListRoutesRequest>(),
        Defect::new("lists-routes-in-one-message")
            .bad_answer::<ListRoutesRequest>(BadAnswer::OversizedReply),
        list_of_the_handshake(),
        Defect::new("hides-blackholes").listed::<ListRoutesRequest>(|routes| {
            for route in routes {
                route.blackhole = false;
            }
        }),
        Defect::new("empty-while-the-cloud-fails").answered(
            On::of::<ListRoutesRequest>(),
            |_, answer| {
                if answer.code() != Code::Unavailable {
                    return answer;
                }
                Answer::ok(&ListRoutesResponse::page(Vec::new(), true))
            },
        ),
        second_create_is_an_error(),
        created("only-ipv4", |route, answer| {
            if route.destination_cidr.contains(':') {
                let text = "the table has routes of IPv4 alone";
                return Answer::failed(refusal(ErrorReason::UnsupportedFeature, text));
            }
            answer
        }),
        overwrites(),
        Defect::new("full-is-rate-limited").error(On::of::<CreateRouteRequest>(), |status| {
            match status.code() {
                Code::ResourceExhausted => refusal(ErrorReason::RateLimited, "the table is full"),
                _ => status,
            }
        }),
        answers_the_operation(),
        deletes_by_destination(),
        delete_of_the_handshake(),
        Defect::new("delete-answers-nothing")
            .answer::<DeleteRouteRequest>(|_, said| said.absent = None),
    ];
    defects.extend(broken::defects());
    defects
}

/// Changes the answer to each create.
fn created(
    name: &'static str,
    change: impl Fn(&Route, Answer) -> Answer + Send + Sync + 'static,
) -> Defect {
    Defect::new(name).answered(On::of::<CreateRouteRequest>(), move |call, answer| {
        let request: CreateRouteRequest = call.message();
        change(&request.route.unwrap_or_default(), answer)
    })
}

fn second_create_is_an_error() -> Defect {
    let made: &Mutex<BTreeSet<(String, String)>> = kept(Mutex::default());
    created("second-create-is-an-error", move |route, answer| {
        let key = (route.destination_cidr.clone(), route.node_name.clone());
        if answer.code() == Code::Ok && !made.lock().insert(key) {
            let text = "409: the route exists";
            return Answer::failed(refusal(ErrorReason::ConflictingResource, text));
        }
        answer
    })
    .request(move |request: &mut DeleteRouteRequest| {
        if let Some(route) = &request.route {
            let mut made = made.lock();
            made.retain(|(destination, _)| *destination != route.destination_cidr);
        }
    })
}

/// The routes of the cluster of a call.
async fn list(call: &Call, next: &Next) -> Vec<Route> {
    let context = context_of(call);
    let listed = next.ask(call, &ListRoutesRequest { context }).await;
    listed.into_iter().flat_map(|one| one.items).collect()
}

fn overwrites() -> Defect {
    Defect::new("overwrites").call::<CreateRouteRequest, _>(|call, next| async move {
        let request: CreateRouteRequest = call.message();
        let new = request.route.unwrap_or_default();
        let mut others = list(&call, &next).await;
        others.retain(|old| {
            old.destination_cidr == new.destination_cidr && old.node_name != new.node_name
        });
        for other in others {
            let delete = DeleteRouteRequest {
                context: request.context.clone(),
                route: Some(other),
            };
            next.ask(&call, &delete).await;
        }
        next.serve(call).await
    })
}

/// A Delete by that name does nothing.
fn answers_the_operation() -> Defect {
    Defect::new("answers-the-operation")
        .answer::<CreateRouteRequest>(|_, said| {
            if let Some(route) = &mut said.found {
                route.name = format!("{OPERATION}{}", route.name);
            }
        })
        .call::<DeleteRouteRequest, _>(|call, next| async move {
            let request: DeleteRouteRequest = call.message();
            let route = request.route.unwrap_or_default();
            if route.name.starts_with(OPERATION) {
                return Answer::ok(&DeleteRouteResponse {
                    absent: Some(Absent::default()),
                    effects: None,
                });
            }
            next.serve(call).await
        })
}

fn deletes_by_destination() -> Defect {
    Defect::new("deletes-by-destination").call::<DeleteRouteRequest, _>(|call, next| async move {
        let mut request: DeleteRouteRequest = call.message();
        let listed = list(&call, &next).await;
        if let Some(route) = &mut request.route {
            let mut listed = listed.into_iter();
            let twin = listed.find(|one| one.destination_cidr == route.destination_cidr);
            *route = twin.unwrap_or_else(|| route.clone());
        }
        next.serve(call.with(&request)).await
    })
}

fn delete_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("deletes-routes-of-all-clusters"));
    defect.in_context::<DeleteRouteRequest>(change)
}

fn list_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("lists-routes-of-all-clusters"));
    defect.in_context::<ListRoutesRequest>(change)
}
