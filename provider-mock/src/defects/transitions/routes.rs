//! A route to another node leads where the one before it led.

use std::collections::BTreeMap;

use outrigger_api::v1::{CreateRouteRequest, DeleteRouteRequest, ListRoutesRequest, Route};
use parking_lot::Mutex;

use crate::defects::{Defect, kept};

/// The last route to a destination.
struct Led {
    desired: Route,
    /// Where it leads in the cloud.
    cloud: Route,
    is_deleted: bool,
}

pub(super) fn defects() -> Vec<Defect> {
    let honest = |name| keeps_next_hop(Defect::new(name)).0;
    let (liar, routes) = keeps_next_hop(Defect::new("route-has-new-name-alone"));
    let liar = liar.listed::<ListRoutesRequest>(move |listed| {
        for route in listed {
            if let Some(led) = routes.lock().get(&route.destination_cidr) {
                lead(route, &led.desired);
            }
        }
    });
    vec![honest("route-keeps-next-hop"), liar]
}

type Routes = &'static Mutex<BTreeMap<String, Led>>;

fn keeps_next_hop(defect: Defect) -> (Defect, Routes) {
    let routes: Routes = kept(Mutex::default());
    let defect = defect
        .request(move |request: &mut CreateRouteRequest| {
            if let Some(route) = &mut request.route {
                let desired = route.clone();
                let mut routes = routes.lock();
                let led = routes.entry(route.destination_cidr.clone());
                let led = led.or_insert_with(|| Led {
                    desired: desired.clone(),
                    cloud: desired.clone(),
                    is_deleted: false,
                });
                if led.is_deleted || led.desired.node_name == desired.node_name {
                    lead(route, &led.cloud);
                    led.desired = desired;
                    led.is_deleted = false;
                }
            }
        })
        .request(move |request: &mut DeleteRouteRequest| {
            if let Some(route) = &mut request.route
                && let Some(led) = routes.lock().get_mut(&route.destination_cidr)
                && led.desired.node_name == route.node_name
            {
                lead(route, &led.cloud);
                led.is_deleted = true;
            }
        })
        .answer::<CreateRouteRequest>(move |request, said| {
            if let (Some(made), Some(route)) = (&mut said.found, &request.route) {
                lead(made, route);
            }
        });
    (defect, routes)
}

/// Leads a route to where another one leads.
fn lead(route: &mut Route, other: &Route) {
    route.node_name.clone_from(&other.node_name);
    route.provider_id.clone_from(&other.provider_id);
    route.node_addresses.clone_from(&other.node_addresses);
    route.next_hop_ip.clone_from(&other.next_hop_ip);
}
