//! Routes from Pod CIDRs to Nodes: the list, and changes that share calls.

use std::sync::Arc;

use outrigger_api::{
    Method, MethodRequest,
    v1::{self, route_result::Outcome},
};
use outrigger_core::{
    fault::Excerpt,
    route::{ObservedRoute, WantedRoute},
};

use super::{
    Error, Provider, Session,
    admission::Urgency,
    batch::{AnsweredCall, BatchAnswer, BatchObject, CallOf, GatheredObject, Twin, ask},
    metrics::ProviderMetrics,
};

mod list;
mod message;

/// The provider's answer about one route: it was made or deleted.
pub type RouteAnswer = BatchAnswer<ObservedRoute>;

/// A route that is made or deleted.
pub(super) struct ChangedRoute {
    change: RouteChange,
    destination: Arc<str>,
}

/// A wanted change of one route.
enum RouteChange {
    Create(WantedRoute),
    Delete(ObservedRoute),
}

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteOperation {
    Create,
    Delete,
}

impl BatchObject for ChangedRoute {
    type Request = v1::BatchCreateRoutesRequest;
    type Found = ObservedRoute;

    fn method(&self) -> &'static Method {
        match self.change {
            RouteChange::Create(_) => v1::BatchCreateRoutesRequest::METHOD,
            RouteChange::Delete(_) => v1::BatchDeleteRoutesRequest::METHOD,
        }
    }

    fn message(&self, _: &Session, _: usize) -> v1::Route {
        match &self.change {
            RouteChange::Create(route) => message::wanted(route),
            RouteChange::Delete(route) => message::observed(route),
        }
    }

    /// The route that was made or deleted, which the provider may show once it is made. Whether it leads to its Node
    /// is for the loop to tell.
    fn read(&self, outcome: Outcome, _: &AnsweredCall<'_>) -> Result<ObservedRoute, Error> {
        let malformed = |what: &str| Error::malformed(self.method().name, what);
        let (wanted, shown) = match (&self.change, outcome) {
            (RouteChange::Delete(route), Outcome::Absent(_)) => return Ok(route.clone()),
            (RouteChange::Create(wanted), Outcome::Found(shown)) => (wanted, shown),
            (RouteChange::Create(_), _) => return Err(malformed("made, but not found")),
            (RouteChange::Delete(_), _) => return Err(malformed("deleted, but not absent")),
        };
        if shown == v1::Route::default() {
            return Ok(wanted.as_made());
        }
        let made = message::raw(shown).check();
        let made = made.map_err(|fault| malformed(&fault.to_string()))?;
        if made.destination() != wanted.destination {
            let shown = Excerpt::of(&made.raw().destination_cidr);
            return Err(malformed(&format!(
                "made, but shown as the route to {shown}"
            )));
        }
        Ok(made)
    }
}

impl GatheredObject for ChangedRoute {
    type Group = RouteOperation;

    const KIND: &'static str = "route";
    /// Its loop looks what became of it.
    const IS_REPEATED: bool = false;

    fn group(&self) -> RouteOperation {
        match self.change {
            RouteChange::Create(_) => RouteOperation::Create,
            RouteChange::Delete(_) => RouteOperation::Delete,
        }
    }

    fn name(&self) -> &Arc<str> {
        &self.destination
    }

    /// No destination is twice in a call.
    fn twin(&self, _: &Self) -> Twin {
        Twin::Waits
    }

    fn most(session: &Session) -> Option<usize> {
        let offered = session.routes.as_ref();
        offered.map(|routes| routes.max_batch_size)
    }

    fn urgency(_: RouteOperation) -> Urgency {
        Urgency::Routes
    }

    fn is_gathered(_: RouteOperation) -> bool {
        false
    }

    fn count(_: RouteOperation, metrics: &ProviderMetrics, routes: usize) {
        metrics.routes_batched(routes);
    }

    async fn call(
        operation: RouteOperation,
        call: CallOf<'_>,
        routes: impl Fn(&Session) -> Vec<v1::Route> + Send + Sync,
    ) -> Result<Vec<v1::RouteResult>, Error> {
        match operation {
            RouteOperation::Create => {
                call.about(v1::BatchCreateRoutesRequest::default, routes)
                    .await
            }
            RouteOperation::Delete => {
                call.about(v1::BatchDeleteRoutesRequest::default, routes)
                    .await
            }
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
        let destination = match &change {
            RouteChange::Create(route) => route.destination,
            RouteChange::Delete(route) => route.destination(),
        };
        let route = ChangedRoute {
            change,
            destination: destination.to_string().into(),
        };
        ask(
            &self.routes,
            route,
            self.preconditions.only_while(is_current),
        )
        .await
    }
}
