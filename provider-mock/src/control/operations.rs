//! Every command on the control socket: its name, its question and its answer.

use std::marker::PhantomData;

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

/// A command with the question `Q` and the answer `A`, both in JSON.
#[derive(Debug)]
pub struct Operation<Q, A> {
    pub(super) name: &'static str,
    types: PhantomData<fn(&Q) -> A>,
}

const fn operation<Q, A>(name: &'static str) -> Operation<Q, A> {
    Operation {
        name,
        types: PhantomData,
    }
}

/// How the mock is set up, and which faults are set.
pub const STATUS: Operation<(), Status> = operation("status");
/// Lists the instances.
pub const INSTANCES: Operation<(), Listed> = operation("instances");
/// Makes an instance.
pub const CREATE_INSTANCE: Operation<InstanceSpec, Changed> = operation("createInstance");
/// Starts instances.
pub const START_INSTANCES: Operation<Targets, Changed> = operation("startInstances");
/// Stops instances.
pub const STOP_INSTANCES: Operation<Targets, Changed> = operation("stopInstances");
/// Announces maintenance of instances, or its end.
pub const ANNOUNCE_MAINTENANCE: Operation<AnnounceMaintenance, Changed> =
    operation("announceMaintenance");
/// Deletes instances.
pub const DELETE_INSTANCES: Operation<Targets, Changed> = operation("deleteInstances");
/// Lists the load balancers, without their targets.
pub const LOAD_BALANCERS: Operation<(), ShownLoadBalancers> = operation("loadBalancers");
/// Shows load balancers with their targets.
pub const SHOW_LOAD_BALANCERS: Operation<Targets, ShownLoadBalancers> =
    operation("showLoadBalancers");
/// Makes a load balancer that no Service asked for.
pub const CREATE_LOAD_BALANCER: Operation<NewLoadBalancer, ShownLoadBalancers> =
    operation("createLoadBalancer");
/// Changes a load balancer behind its provider's back.
pub const EDIT_LOAD_BALANCER: Operation<EditLoadBalancer, ShownLoadBalancers> =
    operation("editLoadBalancer");
/// Deletes load balancers behind their provider's back.
pub const DELETE_LOAD_BALANCERS: Operation<Targets, ShownLoadBalancers> =
    operation("deleteLoadBalancers");
/// Lists the routes.
pub const ROUTES: Operation<(), ShownRoutes> = operation("routes");
/// Makes a route that no controller asked for.
pub const ADD_ROUTE: Operation<NewRoute, ShownRoutes> = operation("addRoute");
/// Lets routes lead elsewhere behind their provider's back.
pub const EDIT_ROUTES: Operation<EditRoutes, ShownRoutes> = operation("editRoutes");
/// Removes routes behind their provider's back.
pub const REMOVE_ROUTES: Operation<Targets, ShownRoutes> = operation("removeRoutes");
/// Lists the volumes.
pub const VOLUMES: Operation<(), ShownVolumes> = operation("volumes");
/// Makes a volume, or puts it in the place of the one with its handle.
pub const SET_VOLUME: Operation<Volume, ShownVolumes> = operation("setVolume");
/// Deletes volumes.
pub const DELETE_VOLUMES: Operation<Targets, ShownVolumes> = operation("deleteVolumes");
/// Changes what a call to the cloud costs.
pub const CHANGE_COST: Operation<ChangeCost, ChangeCost> = operation("changeCost");
/// Lists the faults that are set.
pub const FAULTS: Operation<(), Vec<Fault>> = operation("faults");
/// Sets a fault.
pub const SET_FAULT: Operation<InjectFault, Fault> = operation("setFault");
/// Removes all faults.
pub const CLEAR_FAULTS: Operation<(), Cleared> = operation("clearFaults");
/// Reads the counters.
pub const COUNTERS: Operation<(), Counts> = operation("counters");
/// Reads the counters, which begin again at zero.
pub const RESET_COUNTERS: Operation<(), Counts> = operation("resetCounters");
/// Closes every connection of callers; the mock lives on.
pub const CLOSE_CONNECTIONS: Operation<CloseConnections, ClosedConnections> =
    operation("closeConnections");
