//! Routes from Pod CIDRs to Nodes: the list, and changes that share calls.

use outrigger_core::{
    effects::RawEffects,
    route::{ObservedRoute, WantedRoute},
};
use tokio::time::Instant;

use super::{Error, Provider, batch::ask};

mod calls;
mod list;
mod message;
mod pending;
mod results;

use pending::RouteChange;
pub(super) use pending::{PendingRoute, WaitingRoutes};

/// The provider's answer about one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The route that was made or deleted.
    pub result: Result<ObservedRoute, Error>,
    /// Effects that the provider wants written to the Node, unchecked.
    pub effects: RawEffects,
}

impl From<Error> for RouteAnswer {
    fn from(error: Error) -> Self {
        Self {
            effects: error.effects().cloned().unwrap_or_default(),
            result: Err(error),
        }
    }
}

impl Provider {
    /// Waits until there is a provider that serves routes; `without` is called once if one does not, for
    /// the next process behind the socket may.
    pub async fn serving_routes(&self, without: impl FnOnce()) {
        self.offering(|session| session.routes.is_some(), without)
            .await;
    }

    /// Makes a route, in one call with other routes that wait at the same time. The result is the route as
    /// the provider shows it, or else as it was sent.
    ///
    /// `is_current` is asked right before the request is sent: if not, the result is [`Error::Outdated`].
    /// It must not block. Waits while calls about routes are paused. Dropping the future withdraws the
    /// route, and so does the stop, unless its request was sent; it is then made all the same.
    ///
    /// # Errors
    /// Any [`Error`]; see [`Error::leaves_result_unknown`].
    pub async fn create_route(
        &self,
        route: WantedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        self.change_route(RouteChange::Create(route), is_current)
            .await
    }

    /// Deletes a route. The result is the route; else as [`Provider::create_route`].
    ///
    /// # Errors
    /// As [`Provider::create_route`].
    pub async fn delete_route(
        &self,
        route: ObservedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        self.change_route(RouteChange::Delete(route), is_current)
            .await
    }

    async fn change_route(
        &self,
        change: RouteChange,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        let rpc = change.rpc();
        let pending = |caller| PendingRoute {
            change,
            preconditions: self.preconditions.only_while(is_current),
            since: Instant::now(),
            caller,
        };
        let failed = RouteAnswer::from;
        ask(&self.routes, pending, &self.preconditions, rpc, failed).await
    }
}
