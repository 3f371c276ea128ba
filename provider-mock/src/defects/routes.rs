//! Mistakes about routes.

mod broken;
mod lists;

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchCreateRoutesResponse, BatchDeleteRoutesRequest,
    BatchDeleteRoutesResponse, ErrorReason, ListRoutesRequest, ListRoutesResponse, Route,
    RouteResult,
};
use parking_lot::Mutex;

use super::exchange::{Call, Next};
use super::{Defect, item};
use crate::wire::Answer;

/// Beginning of a name that no Delete knows.
const OPERATION: &str = "operation-";

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        second_create_is_an_error(),
        created(
            "one-route-fails-all",
            "A route that fails fails its whole batch.",
            &["RTE-02", "RTE-06"],
            |results| {
                let failed = results.iter().map(|one| one.status.clone());
                let failed = { failed }.flatten().find(|status| status.code != 0);
                if let Some(failed) = failed {
                    for one in results {
                        one.status = Some(failed.clone());
                        one.route = None;
                    }
                }
            },
        ),
        created(
            "only-ipv4",
            "A route of IPv6 is refused.",
            &["RTE-04"],
            |results| {
                for one in results {
                    if one.destination_cidr.contains(':') {
                        let text = "the table has routes of IPv4 alone";
                        one.status = Some(item(ErrorReason::UnsupportedFeature, text));
                        one.route = None;
                    }
                }
            },
        ),
        overwrites(),
        created(
            "full-is-rate-limited",
            "A table that is full is RATE_LIMITED.",
            &["RTE-06"],
            |results| {
                for one in results {
                    let is_full = one.status.as_ref().is_some_and(|status| status.code == 8);
                    if is_full {
                        let text = "the table is full";
                        one.status = Some(item(ErrorReason::RateLimited, text));
                    }
                }
            },
        ),
        answers_the_operation(),
        deletes_by_destination(),
        Defect::new(
            "empty-batch-of-routes",
            "A batch without routes is answered without results.",
            &["RTE-16"],
        )
        .call::<BatchDeleteRoutesRequest, _>(|call, next| async move {
            let request: BatchDeleteRoutesRequest = call.message();
            if request.items.is_empty() {
                return Answer::ok(&BatchDeleteRoutesResponse::default());
            }
            next.serve(call).await
        }),
        delete_of_the_handshake(),
    ];
    defects.extend(lists::defects());
    defects.extend(broken::defects());
    defects
}

/// Changes the results of each batch that creates.
fn created(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: impl Fn(&mut Vec<RouteResult>) + Send + Sync + 'static,
) -> Defect {
    let each = move |answer: &mut BatchCreateRoutesResponse| change(&mut answer.results);
    Defect::new(name, sentence, cases).answer(BatchCreateRoutes, each)
}

fn is_ok(result: &RouteResult) -> bool {
    result
        .status
        .as_ref()
        .is_some_and(|status| status.code == 0)
}

fn second_create_is_an_error() -> Defect {
    let made: Arc<Mutex<BTreeSet<(String, String)>>> = Arc::default();
    let known = Arc::clone(&made);
    created(
        "second-create-is-an-error",
        "A create of a route that exists as wanted is an error, as in the cloud's API.",
        &["RTE-01", "RTE-02", "RTE-07", "RTE-08"],
        move |results| {
            for one in results {
                let key = (one.destination_cidr.clone(), one.node_name.clone());
                if is_ok(one) && !made.lock().insert(key) {
                    let text = "409: the route exists";
                    one.status = Some(item(ErrorReason::ConflictingResource, text));
                    one.route = None;
                }
            }
        },
    )
    .by_chance(&["RTE-09"])
    .request(move |request: &mut BatchDeleteRoutesRequest| {
        for route in &request.items {
            let mut known = known.lock();
            known.retain(|(destination, _)| *destination != route.destination_cidr);
        }
    })
}

/// The routes of the cluster of a call.
async fn list(call: &Call, next: &Next) -> Vec<Route> {
    let request: ListRoutesRequest = call.message();
    let list = ListRoutesRequest {
        context: request.context,
    };
    let answer = next.correct(call.other(&list)).await;
    let listed: Vec<ListRoutesResponse> = answer.messages();
    listed.into_iter().flat_map(|one| one.items).collect()
}

fn overwrites() -> Defect {
    Defect::new(
        "overwrites",
        "A create for the CIDR of another target takes it over.",
        &["RTE-02", "RTE-05"],
    )
    .call::<BatchCreateRoutesRequest, _>(|call, next| async move {
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
                routes: others,
            };
            next.correct(call.other(&delete)).await;
        }
        next.serve(call).await
    })
}

/// A Delete by that name does nothing.
fn answers_the_operation() -> Defect {
    created(
        "answers-the-operation",
        "A create answers the name of the cloud's operation as that of the route.",
        &["RTE-10"],
        |results| {
            for route in results.iter_mut().filter_map(|one| one.route.as_mut()) {
                route.name = format!("{OPERATION}{}", route.name);
            }
        },
    )
    .call::<BatchDeleteRoutesRequest, _>(|call, next| async move {
        let mut request: BatchDeleteRoutesRequest = call.message();
        let is_unknown = |route: &Route| route.name.starts_with(OPERATION);
        let (unknown, known): (Vec<_>, Vec<_>) = request.items.into_iter().partition(is_unknown);
        let gone = unknown.into_iter().map(|route| RouteResult {
            destination_cidr: route.destination_cidr,
            node_name: route.node_name,
            status: Some(outrigger_api::RpcStatus::default()),
            ..RouteResult::default()
        });
        let gone: Vec<_> = gone.collect();
        if known.is_empty() && !gone.is_empty() {
            return Answer::ok(&BatchDeleteRoutesResponse { results: gone });
        }
        request.items = known;
        let mut answer = next.serve(call.with(&request)).await;
        answer.each(|message: &mut BatchDeleteRoutesResponse| {
            message.results.extend(gone.clone());
        });
        answer
    })
}

fn deletes_by_destination() -> Defect {
    Defect::new(
        "deletes-by-destination",
        "A Delete removes the route to a destination, whichever its target.",
        &["RTE-15"],
    )
    .call::<BatchDeleteRoutesRequest, _>(|call, next| async move {
        let mut request: BatchDeleteRoutesRequest = call.message();
        let listed = list(&call, &next).await;
        let mut nodes = Vec::new();
        for route in &mut request.items {
            let same = |one: &&Route| one.destination_cidr == route.destination_cidr;
            let asked = route.node_name.clone();
            if let Some(known) = listed.iter().find(same) {
                *route = known.clone();
            }
            nodes.push((route.destination_cidr.clone(), asked));
        }
        let mut answer = next.serve(call.with(&request)).await;
        answer.each(|message: &mut BatchDeleteRoutesResponse| {
            for result in &mut message.results {
                let same = |one: &&(String, String)| one.0 == result.destination_cidr;
                if let Some((_, asked)) = nodes.iter().find(same) {
                    result.key.clone_from(asked);
                }
            }
        });
        answer
    })
}

fn delete_of_the_handshake() -> Defect {
    let (defect, cluster) = lists::cluster_of_the_handshake(Defect::new(
        "deletes-routes-of-all-clusters",
        "A Delete of routes is about the cluster of the handshake, whichever it names.",
        &["RTE-14"],
    ));
    defect.request(move |request: &mut BatchDeleteRoutesRequest| {
        let context = request.context.iter_mut();
        context.for_each(|context| context.cluster_uid.clone_from(&cluster.lock()));
    })
}
