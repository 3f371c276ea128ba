//! Mistakes about routes, one by one and in lists.

mod broken;

use std::collections::BTreeSet;

use outrigger_api::v1::{
    Absent, BatchCreateRoutesRequest, BatchDeleteRoutesRequest, BatchDeleteRoutesResponse,
    ErrorReason, ListRoutesRequest, ListRoutesResponse, Route, RouteResult, route_result::Outcome,
};
use outrigger_api::{ItemResult as _, ListPage as _};
use parking_lot::Mutex;
use tonic::Code;

use super::handshake::of_the_handshake;
use super::hook::{Next, On, context_of};
use super::{Defect, item, kept};
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
        Defect::new("one-route-fails-all").results(|_: &BatchCreateRoutesRequest, results| {
            let failed = results.iter().find_map(|one| one.error().cloned());
            if let Some(failed) = failed {
                for one in results {
                    one.outcome = Some(Outcome::Error(failed.clone()));
                }
            }
        }),
        created("only-ipv4", |route, outcome| {
            if route.destination_cidr.contains(':') {
                let text = "the table has routes of IPv4 alone";
                *outcome = Outcome::Error(item(ErrorReason::UnsupportedFeature, text));
            }
        }),
        overwrites(),
        created("full-is-rate-limited", |_, outcome| {
            if matches!(outcome, Outcome::Error(error) if error.code == 8) {
                let text = "the table is full";
                *outcome = Outcome::Error(item(ErrorReason::RateLimited, text));
            }
        }),
        answers_the_operation(),
        deletes_by_destination(),
        delete_of_the_handshake(),
        Defect::new("delete-answers-the-route").outcomes(
            |_: &BatchDeleteRoutesRequest, route, outcome| {
                if let Outcome::Absent(_) = outcome {
                    *outcome = Outcome::Found(route.clone());
                }
            },
        ),
    ];
    defects.extend(broken::defects());
    defects
}

/// Changes the outcome of each route of a batch that creates.
fn created(
    name: &'static str,
    change: impl Fn(&Route, &mut Outcome) + Send + Sync + 'static,
) -> Defect {
    let each =
        move |_: &BatchCreateRoutesRequest, route: &_, outcome: &mut _| change(route, outcome);
    Defect::new(name).outcomes(each)
}

fn second_create_is_an_error() -> Defect {
    let made: &Mutex<BTreeSet<(String, String)>> = kept(Mutex::default());
    created("second-create-is-an-error", move |route, outcome| {
        let key = (route.destination_cidr.clone(), route.node_name.clone());
        if matches!(outcome, Outcome::Found(_)) && !made.lock().insert(key) {
            let text = "409: the route exists";
            *outcome = Outcome::Error(item(ErrorReason::ConflictingResource, text));
        }
    })
    .request(move |request: &mut BatchDeleteRoutesRequest| {
        for route in &request.items {
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
    Defect::new("overwrites").call::<BatchCreateRoutesRequest, _>(|call, next| async move {
        let request: BatchCreateRoutesRequest = call.message();
        let is_other = |old: &Route| {
            request.items.iter().any(|new| {
                new.destination_cidr == old.destination_cidr && new.node_name != old.node_name
            })
        };
        let mut others = list(&call, &next).await;
        others.retain(is_other);
        if !others.is_empty() {
            let delete = BatchDeleteRoutesRequest {
                context: request.context,
                items: others,
            };
            next.ask(&call, &delete).await;
        }
        next.serve(call).await
    })
}

/// A Delete by that name does nothing.
fn answers_the_operation() -> Defect {
    created("answers-the-operation", |_, outcome| {
        if let Outcome::Found(route) = outcome {
            route.name = format!("{OPERATION}{}", route.name);
        }
    })
    .call::<BatchDeleteRoutesRequest, _>(|call, next| async move {
        let mut request: BatchDeleteRoutesRequest = call.message();
        let is_unknown = |route: &Route| route.name.starts_with(OPERATION);
        let (unknown, items): (Vec<_>, Vec<_>) = request.items.into_iter().partition(is_unknown);
        let gone = unknown.into_iter().map(|route| {
            RouteResult::new(route.destination_cidr, Outcome::Absent(Absent::default()))
        });
        let gone: Vec<_> = gone.collect();
        if items.is_empty() && !gone.is_empty() {
            return Answer::ok(&BatchDeleteRoutesResponse { results: gone });
        }
        request.items = items;
        let mut answer = next.serve(call.with(&request)).await;
        answer.results::<BatchDeleteRoutesRequest>(|results| results.extend(gone));
        answer
    })
}

fn deletes_by_destination() -> Defect {
    Defect::new("deletes-by-destination").call::<BatchDeleteRoutesRequest, _>(
        |call, next| async move {
            let mut request: BatchDeleteRoutesRequest = call.message();
            let listed = list(&call, &next).await;
            for route in &mut request.items {
                let same = |one: &&Route| one.destination_cidr == route.destination_cidr;
                if let Some(twin) = listed.iter().find(same) {
                    *route = twin.clone();
                }
            }
            next.serve(call.with(&request)).await
        },
    )
}

fn delete_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("deletes-routes-of-all-clusters"));
    defect.in_context::<BatchDeleteRoutesRequest>(change)
}

fn list_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("lists-routes-of-all-clusters"));
    defect.in_context::<ListRoutesRequest>(change)
}
