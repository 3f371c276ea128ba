//! Its routes.

use outrigger_api::{
    ItemResult,
    v1::{self, route_result::Outcome, routes_service_server::RoutesService},
};
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
                    results: request.items.iter().map(done).collect(),
                })
            }),
            delete: Method::new(|request: &v1::BatchDeleteRoutesRequest| {
                Reply::Say(v1::BatchDeleteRoutesResponse {
                    results: request.items.iter().map(gone).collect(),
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

/// The route was made as asked.
pub(in crate::provider) fn done(route: &v1::Route) -> v1::RouteResult {
    let made = Outcome::Found(v1::Route::default());
    ItemResult::new(route.destination_cidr.clone(), made)
}

/// The route was deleted.
pub(in crate::provider) fn gone(route: &v1::Route) -> v1::RouteResult {
    let gone = Outcome::Absent(v1::Absent::default());
    ItemResult::new(route.destination_cidr.clone(), gone)
}

#[tonic::async_trait]
impl RoutesService for Fake {
    async fn list_routes(
        &self,
        _: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Messages<v1::ListRoutesResponse>>, Status> {
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
