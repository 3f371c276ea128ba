//! Mistakes where creates are duplicated, lose their answer, or are cut off.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_api::v1::{CreateRouteRequest, DeleteRouteRequest, ListRoutesRequest, Route};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::defects::cancelled::Cancelled;
use crate::defects::{Defect, kept};

/// How long a cloud may take, so that calls meet.
const A_WHILE: Duration = Duration::from_millis(20);

/// Destinations.
type Cidrs = &'static Mutex<BTreeSet<String>>;

pub(super) fn defects() -> Vec<Defect> {
    vec![creates_twice(), creates_at_once(), half_made()]
}

fn destination(route: Option<&Route>) -> String {
    route.map_or_else(String::new, |route| route.destination_cidr.clone())
}

/// Shows some routes twice, as long as they are there.
fn twice(defect: Defect, cidrs: Cidrs) -> Defect {
    defect.twice::<ListRoutesRequest>(move |route| cidrs.lock().contains(&route.destination_cidr))
}

fn creates_twice() -> Defect {
    let once: Cidrs = kept(Mutex::default());
    let doubled: Cidrs = kept(Mutex::default());
    let defect = Defect::new("creates-routes-twice");
    twice(defect, doubled)
        .request(move |request: &mut CreateRouteRequest| {
            let destination = destination(request.route.as_ref());
            if !once.lock().insert(destination.clone()) {
                doubled.lock().insert(destination);
            }
        })
        .request(move |request: &mut DeleteRouteRequest| {
            let destination = destination(request.route.as_ref());
            once.lock().remove(&destination);
            doubled.lock().remove(&destination);
        })
}

fn creates_at_once() -> Defect {
    let running: Cidrs = kept(Mutex::default());
    let doubled: Cidrs = kept(Mutex::default());
    let defect = Defect::new("creates-routes-at-once");
    twice(defect, doubled).call::<CreateRouteRequest, _>(move |call, next| async move {
        let request: CreateRouteRequest = call.message();
        let own = destination(request.route.as_ref());
        if !running.lock().insert(own.clone()) {
            doubled.lock().insert(own.clone());
        }
        // Dropped at the end of the call, whichever it is.
        let _ended = Cancelled::new(move || {
            running.lock().remove(&own);
        });
        sleep(A_WHILE).await;
        next.serve(call).await
    })
}

/// A route without a target, until a create completes it.
fn half_made() -> Defect {
    let broken: Cidrs = kept(Mutex::default());
    Defect::new("half-made-routes")
        .call::<CreateRouteRequest, _>(move |call, next| async move {
            let request: CreateRouteRequest = call.message();
            let own = destination(request.route.as_ref());
            let of_call = own.clone();
            let cancelled = Cancelled::new(move || {
                broken.lock().insert(of_call);
            });
            // Long enough that several cuts come within it.
            sleep(A_WHILE * 5).await;
            let answer = next.serve(call).await;
            cancelled.done();
            broken.lock().remove(&own);
            answer
        })
        .request(move |request: &mut DeleteRouteRequest| {
            let named = destination(request.route.as_ref());
            broken.lock().remove(&named);
        })
        .listed::<ListRoutesRequest>(move |routes| {
            let half = broken.lock();
            let half = half.iter().map(|destination| Route {
                destination_cidr: destination.clone(),
                ..Route::default()
            });
            routes.extend(half);
        })
}
