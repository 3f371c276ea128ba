//! `RoutesService`: changes serialised before a vendor's handler.

use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::{self, routes_service_server::RoutesService};
use tonic::{Request, Response, Status};

use super::calls::Answers;
use super::core::Core;
use super::keys::Keys;
use crate::routes::network;
use crate::{Context, Error, Route, RouteChange, RouteChanges, RouteSink, Routes};

/// When a route is asked for again that another call changes: soon, since that call is mostly one
/// which its caller has cancelled.
const BUSY_RETRY: Duration = Duration::from_secs(1);

pub(super) struct RoutesRpc<R> {
    core: Arc<Core>,
    changes: Arc<Changes<R>>,
}

struct Changes<R> {
    routes: R,
    /// A slot is one batch.
    keys: Arc<Keys>,
}

impl<R: Routes> RoutesRpc<R> {
    pub(super) fn new(core: Arc<Core>, routes: R, max_in_flight: u32) -> Self {
        let keys = Arc::new(Keys::at_most(max_in_flight));
        Self {
            core,
            changes: Arc::new(Changes { routes, keys }),
        }
    }
}

#[tonic::async_trait]
impl<R: Routes> RoutesService for RoutesRpc<R> {
    async fn list_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Answers<v1::ListRoutesResponse>>, Status> {
        let changes = Arc::clone(&self.changes);
        let list = async move |ctx, _, mut sink: RouteSink| {
            changes.routes.list_routes(&ctx, &mut sink).await?;
            sink.complete().await
        };
        self.core.list(request, true, list)
    }

    async fn batch_create_routes(
        &self,
        request: Request<v1::BatchCreateRoutesRequest>,
    ) -> Result<Response<v1::BatchCreateRoutesResponse>, Status> {
        let changes = Arc::clone(&self.changes);
        let create = async move |ctx, request: v1::BatchCreateRoutesRequest| {
            changes.change(&ctx, request.items, true).await
        };
        let outcome = |change: RouteChange| change.into_wire(true);
        self.core.batch(request, create, outcome).await
    }

    async fn batch_delete_routes(
        &self,
        request: Request<v1::BatchDeleteRoutesRequest>,
    ) -> Result<Response<v1::BatchDeleteRoutesResponse>, Status> {
        let changes = Arc::clone(&self.changes);
        let delete = async move |ctx, request: v1::BatchDeleteRoutesRequest| {
            changes.change(&ctx, request.items, false).await
        };
        let outcome = |change: RouteChange| change.into_wire(false);
        self.core.batch(request, delete, outcome).await
    }
}

impl<R: Routes> Changes<R> {
    /// Changes routes once one more batch may run. A route that another call changes is not waited for: the
    /// others of the batch would wait with it.
    async fn change(
        &self,
        ctx: &Context,
        wire: Vec<v1::Route>,
        is_creation: bool,
    ) -> Result<RouteChanges, Error> {
        let _slot = self.keys.slot(ctx).await?;
        let mut held = Vec::with_capacity(wire.len());
        let routes = wire.into_iter().map(Route::from_wire);
        let (free, busy): (Vec<_>, Vec<_>) = routes.partition(|route| {
            let key = self.keys.try_hold(&key(&route.destination_cidr));
            let is_free = key.is_some();
            held.extend(key);
            is_free
        });
        let mut changed = match free.as_slice() {
            [] => RouteChanges::new(),
            free if is_creation => self.routes.create_routes(ctx, free).await?,
            free => self.routes.delete_routes(ctx, free).await?,
        };
        changed.extend(busy.into_iter().map(|route| {
            let destination = route.destination_cidr;
            let text = format!("another call changes the route to {destination}");
            let busy = Error::operation_in_progress(text).with_retry_after(BUSY_RETRY);
            (destination, Err(busy))
        }));
        Ok(changed)
    }
}

/// The key of a destination, one for all spellings. A listed route may have an invalid destination.
fn key(destination: &str) -> String {
    network(destination).map_or_else(
        || destination.to_owned(),
        |(ip, length)| format!("{ip}/{length}"),
    )
}
