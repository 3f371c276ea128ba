//! All routes of this cluster.

use outrigger_api::v1;
use outrigger_core::route::{ObservedRoute, RouteFault};
use tracing::warn;

use super::message;
use crate::{
    Error, Provider,
    admission::Urgency,
    gather::{Collector, ListRequest},
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

impl Provider {
    /// Lists every route of this cluster, all of them or an error. A route that breaks the contract is left
    /// out, with a warning.
    ///
    /// Waits while calls about routes are paused.
    ///
    /// # Errors
    /// Any [`Error`]: a list that is not complete is one.
    pub async fn list_routes(&self) -> Result<Vec<ObservedRoute>, Error> {
        let (permit, session) = self
            .admit::<v1::ListRoutesRequest>(Urgency::RouteList)
            .await?;
        let list = || ListRequest {
            message: v1::ListRoutesRequest::default(),
            collector: CheckedRoutes::default(),
        };
        let preconditions = &self.preconditions;
        let listed = self.shared.list(&permit, preconditions, &session, list);
        let CheckedRoutes {
            listed,
            left_out,
            fault,
        } = listed.await?;
        if let Some(error) = fault {
            let total = left_out + listed.len();
            self.shared.metrics.routes_refused(left_out);
            warn!(left_out, total, %error, "routes that break the contract left alone");
        }
        Ok(listed)
    }
}
