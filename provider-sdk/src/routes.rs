//! Routes from Pod CIDRs to Nodes.

mod capability;
mod route;

use std::collections::HashMap;
use std::future::Future;

use outrigger_api::v1;

use crate::each::change_each;
use crate::sink::{Listed, Sink};
use crate::{Context, Error};

pub use capability::RoutesCapability;
pub(crate) use route::network;
pub use route::{Route, RouteChange};

#[cfg(test)]
mod tests;

/// Results of a batch by [`Route::destination_cidr`] as the batch spells it.
pub type RouteChanges = HashMap<String, Result<RouteChange, Error>>;

/// Where [`list_routes`](Routes::list_routes) puts what it finds.
pub type RouteSink = Sink<Route>;

impl Listed for Route {
    type Page = v1::ListRoutesResponse;

    fn into_wire(self) -> v1::Route {
        self.into_wire()
    }
}

/// Lists, makes and removes routes.
///
/// Mark each route with [`Cluster::uid`](crate::Cluster), in a tag or in its name, in the call that
/// creates it: an answer may be lost, and this process may be killed at any time. List and delete
/// that cluster's routes only. A cloud without marks lists the whole table that it was configured
/// with; the controller leaves alone what is outside its `--cluster-cidr`.
///
/// A batch names a destination CIDR once, and the controller deletes before it creates: to move a CIDR
/// to another Node it asks for the deletion, and for the new route once that is answered. The server
/// runs one change per destination CIDR at a time, also beyond the end of a call whose caller went
/// away (see [`Context`]); another one is answered [`Error::operation_in_progress`] at once.
///
/// Methods may be written as `async fn`.
pub trait Routes: Send + Sync + 'static {
    /// How routes are written. The same for the life of the process; asked when the server starts and
    /// by the provided methods.
    fn capability(&self) -> RoutesCapability {
        RoutesCapability::default()
    }

    /// Hands every route of this cluster to `routes`, those that lead nowhere too
    /// ([`Route::blackhole`]). `Ok` means that the list is whole; with `Err`, or a panic, the caller
    /// discards it.
    ///
    /// # Cancellation
    ///
    /// See [`Context`]; [`RouteSink::send`] also fails once the caller is gone.
    fn list_routes(
        &self,
        ctx: &Context,
        routes: &mut RouteSink,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes one route. A route that exists as requested is a success. A route to another target is
    /// [`Error::conflicting_resource`] and stays; a table that is full, [`Error::quota_exceeded`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`]: `ctx.check()?` before each change.
    fn create_route(
        &self,
        ctx: &Context,
        route: &Route,
    ) -> impl Future<Output = Result<RouteChange, Error>> + Send;

    /// Removes one route. A route that is gone is a success. `route` is as it was listed, or as its
    /// creation answered it; where that returned no route, as it was asked for, without a
    /// [`name`](Route::name).
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn delete_route(
        &self,
        ctx: &Context,
        route: &Route,
    ) -> impl Future<Output = Result<RouteChange, Error>> + Send;

    /// Makes many routes: for a cloud where one call makes many.
    ///
    /// `routes` has 1 to [`RoutesCapability::max_batch_size`] routes with distinct destinations. An
    /// `Err` of the whole is the error of each. A route that is missing from the result is reported as
    /// failed, a result for a route that was not asked for is dropped; both are logged.
    ///
    /// The default calls [`create_route`](Self::create_route) for each, at most
    /// [`RoutesCapability::concurrency`] at a time; an error or a panic concerns its route only. Once
    /// the cloud limits the rate, refuses the credentials or is away, routes that were not begun yet
    /// get that error too.
    ///
    /// # Cancellation
    ///
    /// See [`Context`]. The default begins no further route when the caller goes away.
    fn create_routes(
        &self,
        ctx: &Context,
        routes: &[Route],
    ) -> impl Future<Output = Result<RouteChanges, Error>> + Send {
        let concurrency = self.capability().concurrency;
        let create = move |route| self.create_route(ctx, route);
        change_each(
            ctx,
            routes,
            concurrency,
            |route| &route.destination_cidr,
            create,
        )
    }

    /// Removes many routes; as [`create_routes`](Self::create_routes), with
    /// [`delete_route`](Self::delete_route).
    fn delete_routes(
        &self,
        ctx: &Context,
        routes: &[Route],
    ) -> impl Future<Output = Result<RouteChanges, Error>> + Send {
        let concurrency = self.capability().concurrency;
        let delete = move |route| self.delete_route(ctx, route);
        change_each(
            ctx,
            routes,
            concurrency,
            |route| &route.destination_cidr,
            delete,
        )
    }
}
