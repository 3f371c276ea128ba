//! [`Routes`]: the routes of the cloud from a Pod CIDR to the machine of its Node.
//!
//! The controller lists all of them, compares them with the Nodes and asks for one creation or deletion at a time for each
//! destination; the server holds calls about the same destination apart (`server/keys`), however they spell it.

mod cidr;

use std::future::Future;

use outrigger_api::v1;

use crate::sink::Sink;
use crate::{Context, Error, WithEffects};

pub(crate) use cidr::network;

/// Where [`list_routes`](Routes::list_routes) puts what it finds.
pub type RouteSink = Sink<v1::ListRoutesResponse>;

/// Lists, makes and removes routes.
///
/// Mark each route with [`ClusterInfo::uid`](v1::ClusterInfo::uid), in a tag or in its name, in the call that
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
    ///
    /// The server keeps to `max_in_flight` too, beyond the end of a call whose caller went away.
    fn capability(&self) -> v1::RoutesCapability {
        v1::RoutesCapability::default()
    }

    /// Hands every route of this cluster to `routes`, those that lead nowhere too
    /// ([`blackhole`](v1::Route::blackhole)). `Ok` means that the list is whole; with `Err`, or a panic, the caller
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

    /// Makes one route, and answers it as a list shows it; `None`: the controller keeps it as it asked for it, and
    /// deletes it without a name. A route that exists as requested is a success. A route to another target is
    /// [`Error::conflicting_resource`] and stays; a table that is full, [`Error::quota_exceeded`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`]: `ctx.check()?` before each change.
    fn create_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> impl Future<Output = Result<WithEffects<Option<v1::Route>>, Error>> + Send;

    /// Removes one route. A route that is gone is a success. `route` is as it was listed, or as its
    /// creation answered it; where that returned no route, as it was asked for, without a
    /// [`name`](v1::Route::name).
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn delete_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> impl Future<Output = Result<WithEffects<()>, Error>> + Send;
}
