//! Every request on the control socket: its method, its path, its question and its answer.

use std::marker::PhantomData;

use axum::routing::MethodFilter;
use http::Method;

use super::load_balancers::{EditLoadBalancer, NewLoadBalancer, ShownLoadBalancers};
use super::messages::{
    AnnounceMaintenance, ChangeCost, Changed, Cleared, CloseConnections, ClosedConnections,
    InjectFault, Listed, Status, Targets,
};
use super::routes::{EditRoutes, NewRoute, ShownRoutes};
use super::volumes::ShownVolumes;
use crate::cloud::Counts;
use crate::faults::Fault;
use crate::instances::InstanceSpec;
use crate::volumes::Volume;

/// A request with the question `Q` and the answer `A`, both in JSON.
#[derive(Debug)]
pub struct Operation<Q, A> {
    pub(super) method: Method,
    pub(super) filter: MethodFilter,
    pub(super) path: &'static str,
    types: PhantomData<fn(&Q) -> A>,
}

const fn operation<Q, A>(
    method: Method,
    filter: MethodFilter,
    path: &'static str,
) -> Operation<Q, A> {
    Operation {
        method,
        filter,
        path,
        types: PhantomData,
    }
}

const fn get<A>(path: &'static str) -> Operation<(), A> {
    operation(Method::GET, MethodFilter::GET, path)
}

const fn post<Q, A>(path: &'static str) -> Operation<Q, A> {
    operation(Method::POST, MethodFilter::POST, path)
}

const fn delete<A>(path: &'static str) -> Operation<(), A> {
    operation(Method::DELETE, MethodFilter::DELETE, path)
}

/// How the mock is set up, and which faults are set.
pub const STATUS: Operation<(), Status> = get("/v1/status");
/// Lists the instances.
pub const INSTANCES: Operation<(), Listed> = get("/v1/instances");
/// Makes an instance.
pub const CREATE_INSTANCE: Operation<InstanceSpec, Changed> = post("/v1/instances");
/// Starts instances.
pub const START_INSTANCES: Operation<Targets, Changed> = post("/v1/instances/start");
/// Stops instances.
pub const STOP_INSTANCES: Operation<Targets, Changed> = post("/v1/instances/stop");
/// Announces maintenance of instances, or its end.
pub const ANNOUNCE_MAINTENANCE: Operation<AnnounceMaintenance, Changed> =
    post("/v1/instances/maintenance");
/// Deletes instances.
pub const DELETE_INSTANCES: Operation<Targets, Changed> = post("/v1/instances/delete");
/// Lists the load balancers, without their targets.
pub const LOAD_BALANCERS: Operation<(), ShownLoadBalancers> = get("/v1/load-balancers");
/// Shows load balancers with their targets.
pub const SHOW_LOAD_BALANCERS: Operation<Targets, ShownLoadBalancers> =
    post("/v1/load-balancers/show");
/// Makes a load balancer that no Service asked for.
pub const CREATE_LOAD_BALANCER: Operation<NewLoadBalancer, ShownLoadBalancers> =
    post("/v1/load-balancers");
/// Changes a load balancer behind its provider's back.
pub const EDIT_LOAD_BALANCER: Operation<EditLoadBalancer, ShownLoadBalancers> =
    post("/v1/load-balancers/edit");
/// Deletes load balancers behind their provider's back.
pub const DELETE_LOAD_BALANCERS: Operation<Targets, ShownLoadBalancers> =
    post("/v1/load-balancers/delete");
/// Lists the routes.
pub const ROUTES: Operation<(), ShownRoutes> = get("/v1/routes");
/// Makes a route that no controller asked for.
pub const ADD_ROUTE: Operation<NewRoute, ShownRoutes> = post("/v1/routes");
/// Lets routes lead elsewhere behind their provider's back.
pub const EDIT_ROUTES: Operation<EditRoutes, ShownRoutes> = post("/v1/routes/edit");
/// Removes routes behind their provider's back.
pub const REMOVE_ROUTES: Operation<Targets, ShownRoutes> = post("/v1/routes/remove");
/// Lists the volumes.
pub const VOLUMES: Operation<(), ShownVolumes> = get("/v1/volumes");
/// Makes a volume, or puts it in the place of the one with its handle.
pub const SET_VOLUME: Operation<Volume, ShownVolumes> = post("/v1/volumes");
/// Deletes volumes.
pub const DELETE_VOLUMES: Operation<Targets, ShownVolumes> = post("/v1/volumes/delete");
/// Changes what a call to the cloud costs.
pub const CHANGE_COST: Operation<ChangeCost, ChangeCost> =
    operation(Method::PUT, MethodFilter::PUT, "/v1/cost");
/// Lists the faults that are set.
pub const FAULTS: Operation<(), Vec<Fault>> = get("/v1/faults");
/// Sets a fault.
pub const SET_FAULT: Operation<InjectFault, Fault> = post("/v1/faults");
/// Removes all faults.
pub const CLEAR_FAULTS: Operation<(), Cleared> = delete("/v1/faults");
/// Reads the counters.
pub const COUNTERS: Operation<(), Counts> = get("/v1/counters");
/// Reads the counters, which begin again at zero.
pub const RESET_COUNTERS: Operation<(), Counts> = delete("/v1/counters");
/// Closes every connection of callers; the mock lives on.
pub const CLOSE_CONNECTIONS: Operation<CloseConnections, ClosedConnections> =
    post("/v1/connections/close");
