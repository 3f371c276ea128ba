//! `RoutesService`: each call goes to the vendor's [`Routes`]. A changing call waits for its destination's lock (`keys`).

use std::sync::Arc;

use outrigger_api::v1::{self, routes_service_server::RoutesService};
use tonic::{Request, Response, Status};

use super::calls::Answers;
use super::core::Core;
use super::keys::Keys;
use crate::{Context, RouteSink, Routes, WithEffects, routes::network};

pub(super) struct RoutesRpc<R> {
    core: Arc<Core>,
    routes: Arc<R>,
    keys: Arc<Keys>,
}

impl<R: Routes> RoutesRpc<R> {
    pub(super) fn new(core: Arc<Core>, routes: R, max_in_flight: u32) -> Self {
        Self {
            core,
            routes: Arc::new(routes),
            keys: Arc::new(Keys::at_most(max_in_flight)),
        }
    }
}

#[tonic::async_trait]
impl<R: Routes> RoutesService for RoutesRpc<R> {
    async fn list_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Answers<v1::ListRoutesResponse>>, Status> {
        let routes = Arc::clone(&self.routes);
        let list = async move |ctx, _, mut sink: RouteSink| {
            routes.list_routes(&ctx, &mut sink).await?;
            sink.complete().await
        };
        self.core.list(request, true, list)
    }

    async fn create_route(
        &self,
        request: Request<v1::CreateRouteRequest>,
    ) -> Result<Response<v1::CreateRouteResponse>, Status> {
        let (routes, keys) = (Arc::clone(&self.routes), Arc::clone(&self.keys));
        let create = async move |ctx: Context, request: v1::CreateRouteRequest| {
            let route = request.route.unwrap_or_default();
            let _held = keys.hold(&ctx, &key(&route.destination_cidr)).await?;
            let answer = routes.create_route(&ctx, &route).await?;
            Ok(v1::CreateRouteResponse {
                found: Some(answer.outcome.unwrap_or_default()),
                effects: answer.effects,
            })
        };
        self.core.unary(request, create).await
    }

    async fn delete_route(
        &self,
        request: Request<v1::DeleteRouteRequest>,
    ) -> Result<Response<v1::DeleteRouteResponse>, Status> {
        let (routes, keys) = (Arc::clone(&self.routes), Arc::clone(&self.keys));
        let delete = async move |ctx: Context, request: v1::DeleteRouteRequest| {
            let route = request.route.unwrap_or_default();
            let _held = keys.hold(&ctx, &key(&route.destination_cidr)).await?;
            let WithEffects { effects, .. } = routes.delete_route(&ctx, &route).await?;
            let absent = Some(v1::Absent::default());
            Ok(v1::DeleteRouteResponse { absent, effects })
        };
        self.core.unary(request, delete).await
    }
}

/// The key of a destination, one for all spellings. A listed route may have an invalid destination.
fn key(destination: &str) -> String {
    network(destination).map_or_else(
        || destination.to_owned(),
        |(ip, length)| format!("{ip}/{length}"),
    )
}
