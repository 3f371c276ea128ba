//! Routes from Pod CIDRs to Nodes.

mod capability;
mod route;

use std::future::Future;

use outrigger_api::v1;

use crate::sink::{Listed, Sink};
use crate::{Context, Error};

pub use capability::RoutesCapability;
pub(crate) use route::network;
pub use route::{Route, RouteChange};

#[cfg(test)]
mod tests;

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
/// The controller deletes before it creates: to move a CIDR to another Node it asks for the deletion, and
/// for the new route once that is answered. The server runs one change per destination CIDR at a time, also
/// beyond the end of a call whose caller went away (see [`Context`]). A cloud where one call changes many
/// routes has a [`Batcher`](crate::Batcher).
///
/// Methods may be written as `async fn`.
pub trait Routes: Send + Sync + 'static {
    /// How routes are written. The same for the life of the process; asked when the server starts.
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
}
