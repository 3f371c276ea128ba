//! All routes of this cluster.

use std::time::Duration;

use outrigger_api::v1::{self, routes_service_client::RoutesServiceClient};
use outrigger_core::route::{ObservedRoute, RawRoute};
use tonic::{Request, Response, Status};
use tracing::warn;

use super::message;
use crate::provider::{
    Error, Provider,
    admission::Urgency,
    call::{MessageLimits, Unary},
    details::Checked,
    gather::{Gathered, gather},
};

/// `RoutesService.ListRoutes`, gathered.
struct ListRoutes;

impl Unary for ListRoutes {
    type Request = v1::ListRoutesRequest;
    type Response = Gathered<RawRoute>;
    const NAME: &'static str = "ListRoutes";
    const DEADLINE: Duration = Duration::from_mins(5);
    const WITHOUT: &'static str = "no route is made or deleted";

    async fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Self::Request>,
    ) -> Result<Response<Self::Response>, Status> {
        let mut client =
            RoutesServiceClient::new(channel).max_decoding_message_size(limits.receive);
        gather(client.list_routes(request), |part| {
            (part.routes.into_iter().map(message::raw), part.complete)
        })
        .await
    }
}

impl Provider {
    /// Lists every route of this cluster, all of them or an error. A route that breaks the contract is left
    /// out, with a warning.
    ///
    /// Waits while calls about routes are paused.
    ///
    /// # Errors
    /// Any [`Error`]: a list that is not complete is one.
    pub async fn list_routes(&self) -> Result<Vec<ObservedRoute>, Error> {
        let rpc = ListRoutes::NAME;
        let (permit, session) = self.admit::<ListRoutes>(Urgency::RouteList).await?;
        if session.routes.is_none() {
            return Err(Error::NotOffered { rpc });
        }
        let call =
            self.shared
                .call::<ListRoutes>(&permit, &self.preconditions, &session, |_, context| {
                    v1::ListRoutesRequest {
                        context: Some(context),
                    }
                });
        let routes = call.await?.whole(rpc)?;
        let total = routes.len();
        let mut listed = Vec::with_capacity(total);
        let mut refused = None;
        for raw in routes {
            match raw.check() {
                Ok(route) => listed.push(route),
                Err(fault) => refused = Some(fault),
            }
        }
        if let Some(error) = refused {
            let left_out = total - listed.len();
            self.shared.metrics.routes_refused(left_out);
            warn!(left_out, total, %error, "routes that break the contract left alone");
        }
        Ok(listed)
    }
}
