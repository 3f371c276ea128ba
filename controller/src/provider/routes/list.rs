//! All routes of this cluster.

use std::time::Duration;

use outrigger_api::v1;
use outrigger_core::route::{ObservedRoute, RouteFault};
use tonic::{Request, Response, Status};
use tracing::warn;

use super::message;
use crate::provider::{
    Error, Provider,
    admission::Urgency,
    call::{MessageLimits, Unary},
    details::Checked,
    gather::{Collector, Gathered, ListRequest, gather},
};

/// Routes that keep the contract, and how many do not.
#[derive(Default)]
struct CheckedRoutes {
    listed: Vec<ObservedRoute>,
    left_out: usize,
    fault: Option<RouteFault>,
}

impl Collector for CheckedRoutes {
    type Entry = v1::Route;

    fn take(&mut self, entry: v1::Route) -> bool {
        let checked = message::raw(entry).check();
        let is_kept = checked.is_ok();
        match checked {
            Ok(route) => self.listed.push(route),
            Err(fault) => {
                self.left_out += 1;
                self.fault = Some(fault);
            }
        }
        is_kept
    }
}

/// `RoutesService.ListRoutes`, gathered.
struct ListRoutes;

impl Unary for ListRoutes {
    type Request = ListRequest<v1::ListRoutesRequest, CheckedRoutes>;
    type Response = Gathered<CheckedRoutes>;
    const NAME: &'static str = "ListRoutes";
    const DEADLINE: Duration = Duration::from_mins(5);
    const WITHOUT: &'static str = "no route is made or deleted";

    async fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Self::Request>,
    ) -> Result<Response<Self::Response>, Status> {
        let path = "/cloudprovider.v1.RoutesService/ListRoutes";
        gather(channel, limits, path, "ListRoutesResponse", request).await
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
                    ListRequest {
                        message: v1::ListRoutesRequest {
                            context: Some(context),
                        },
                        collector: CheckedRoutes::default(),
                    }
                });
        let CheckedRoutes {
            listed,
            left_out,
            fault,
        } = call.await?.whole(rpc)?;
        if let Some(error) = fault {
            let total = left_out + listed.len();
            self.shared.metrics.routes_refused(left_out);
            warn!(left_out, total, %error, "routes that break the contract left alone");
        }
        Ok(listed)
    }
}
