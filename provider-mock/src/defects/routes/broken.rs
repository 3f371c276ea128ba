//! Mistakes where creates are duplicated, lose their answer, or are cut off.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchDeleteRoutesRequest, ListRoutesRequest, Route,
};
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

fn destinations(request: &BatchCreateRoutesRequest) -> BTreeSet<String> {
    let routes = request.items.iter();
    routes.map(|route| route.destination_cidr.clone()).collect()
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
        .request(move |request: &mut BatchCreateRoutesRequest| {
            for destination in destinations(request) {
                if !once.lock().insert(destination.clone()) {
                    doubled.lock().insert(destination);
                }
            }
        })
        .request(move |request: &mut BatchDeleteRoutesRequest| {
            // Both at once, as the list shows them.
            let mut named = BTreeSet::new();
            request.items.retain(|route| {
                let destination = &route.destination_cidr;
                named.insert(destination.clone()) || !doubled.lock().contains(destination)
            });
            for route in &request.items {
                once.lock().remove(&route.destination_cidr);
                doubled.lock().remove(&route.destination_cidr);
            }
        })
}

fn creates_at_once() -> Defect {
    let running: Cidrs = kept(Mutex::default());
    let doubled: Cidrs = kept(Mutex::default());
    let defect = Defect::new("creates-routes-at-once");
    twice(defect, doubled).call::<BatchCreateRoutesRequest, _>(move |call, next| async move {
        let own_destinations = destinations(&call.message());
        for destination in &own_destinations {
            if !running.lock().insert(destination.clone()) {
                doubled.lock().insert(destination.clone());
            }
        }
        // Dropped at the end of the call, whichever it is.
        let _ended = Cancelled::new(move || {
            running.lock().retain(|one| !own_destinations.contains(one));
        });
        sleep(A_WHILE).await;
        next.serve(call).await
    })
}

/// A route without a target, until a create completes it.
fn half_made() -> Defect {
    let broken: Cidrs = kept(Mutex::default());
    Defect::new("half-made-routes")
        .call::<BatchCreateRoutesRequest, _>(move |call, next| async move {
            let own_destinations = destinations(&call.message());
            let of_call = own_destinations.clone();
            let cancelled = Cancelled::new(move || broken.lock().extend(of_call));
            // Long enough that several cuts come within it.
            sleep(A_WHILE * 5).await;
            let answer = next.serve(call).await;
            cancelled.done();
            broken.lock().retain(|one| !own_destinations.contains(one));
            answer
        })
        .request(move |request: &mut BatchDeleteRoutesRequest| {
            let is_named = |one: &String| {
                let mut routes = request.items.iter();
                routes.any(|route| route.destination_cidr == *one)
            };
            broken.lock().retain(|one| !is_named(one));
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
