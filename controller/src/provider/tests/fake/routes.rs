//! Its routes.

use outrigger_api::v1::{self, routes_service_server::RoutesService};
use parking_lot::Mutex;
use tonic::{Request, Response, Status};

use super::{
    Fake, Reply,
    load_balancers::{Messages, Method, Step, play},
};

pub(in crate::provider) struct FakeRoutes {
    pub(in crate::provider) create:
        Method<v1::BatchCreateRoutesRequest, v1::BatchCreateRoutesResponse>,
    pub(in crate::provider) delete:
        Method<v1::BatchDeleteRoutesRequest, v1::BatchDeleteRoutesResponse>,
    on_list: Mutex<Vec<Step<v1::ListRoutesResponse>>>,
}

impl Default for FakeRoutes {
    fn default() -> Self {
        Self {
            create: Method::new(|request: &v1::BatchCreateRoutesRequest| {
                Reply::Say(v1::BatchCreateRoutesResponse {
                    results: request.routes.iter().map(done).collect(),
                })
            }),
            delete: Method::new(|request: &v1::BatchDeleteRoutesRequest| {
                Reply::Say(v1::BatchDeleteRoutesResponse {
                    results: request.routes.iter().map(done).collect(),
                })
            }),
            on_list: Mutex::default(),
        }
    }
}

impl FakeRoutes {
    pub(in crate::provider) fn on_list(&self, steps: Vec<Step<v1::ListRoutesResponse>>) {
        *self.on_list.lock() = steps;
    }
}

/// The route was changed as asked.
pub(in crate::provider) fn done(route: &v1::Route) -> v1::RouteResult {
    v1::RouteResult {
        destination_cidr: route.destination_cidr.clone(),
        node_name: route.node_name.clone(),
        status: Some(outrigger_api::RpcStatus::default()),
        ..v1::RouteResult::default()
    }
}

#[tonic::async_trait]
impl RoutesService for Fake {
    type ListRoutesStream = Messages<v1::ListRoutesResponse>;

    async fn list_routes(
        &self,
        _: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Self::ListRoutesStream>, Status> {
        let steps = std::mem::take(&mut *self.routes.on_list.lock());
        Ok(Response::new(play(steps)))
    }

    async fn batch_create_routes(
        &self,
        request: Request<v1::BatchCreateRoutesRequest>,
    ) -> Result<Response<v1::BatchCreateRoutesResponse>, Status> {
        self.routes.create.answer(request).await
    }

    async fn batch_delete_routes(
        &self,
        request: Request<v1::BatchDeleteRoutesRequest>,
    ) -> Result<Response<v1::BatchDeleteRoutesResponse>, Status> {
        self.routes.delete.answer(request).await
    }
}
