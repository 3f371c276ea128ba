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
use tracing::warn;

use super::{
    Error, Provider, Session,
    admission::Urgency,
    batch::{AnsweredCall, BatchAnswer, BatchObject, CallOf, GatheredObject, Twin, ask},
    gather::ListRequest,
    metrics::ProviderMetrics,
};

mod list;
mod message;

use list::CheckedRoutes;

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

    /// Returns the route that was created or deleted. The provider may send a route that it created; the loop checks that
    /// it leads to its Node.
    fn read(&self, outcome: Outcome, _: &AnsweredCall<'_>) -> Result<ObservedRoute, Error> {
        let malformed = |what: &str| Error::malformed(self.method().name, what);
        let (desired, shown) = match (&self.change, outcome) {
            (RouteChange::Delete(route), Outcome::Absent(_)) => return Ok(route.clone()),
            (RouteChange::Create(desired), Outcome::Found(shown)) => (desired, shown),
            (RouteChange::Create(_), _) => return Err(malformed("made, but not found")),
            (RouteChange::Delete(_), _) => return Err(malformed("deleted, but not absent")),
        };
        if shown == v1::Route::default() {
            return Ok(desired.as_made());
        }
        let made = message::raw(shown).check();
        let made = made.map_err(|fault| malformed(&fault.to_string()))?;
        if made.destination() != desired.destination {
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

/// Calls about routes.
#[derive(Clone, Copy)]
pub struct Routes<'a>(pub(super) &'a Provider);

impl Routes<'_> {
    /// Waits until there is a provider that serves routes; `without` is called once if one does not, for
    /// the next process behind the socket may.
    pub async fn wait_until_serving(self, without: impl FnOnce()) {
        self.0
            .offering(|session| session.routes.is_some(), without)
            .await;
    }

    /// Lists every route of this cluster, all of them or an error. A route that breaks the contract is left
    /// out, with a warning.
    ///
    /// Waits while calls about routes are paused.
    ///
    /// # Errors
    /// Any [`Error`]: a list that is not complete is one.
    pub async fn list(self) -> Result<Vec<ObservedRoute>, Error> {
        let (permit, session) = self
            .0
            .admit::<v1::ListRoutesRequest>(Urgency::RouteList)
            .await?;
        let list = || ListRequest {
            message: v1::ListRoutesRequest::default(),
            collector: CheckedRoutes::default(),
        };
        let preconditions = &self.0.preconditions;
        let listed = self.0.shared.list(&permit, preconditions, &session, list);
        let CheckedRoutes {
            listed,
            left_out,
            fault,
        } = listed.await?;
        if let Some(error) = fault {
            let total = left_out + listed.len();
            self.0.shared.metrics.routes_refused(left_out);
            warn!(left_out, total, %error, "routes that break the contract left alone");
        }
        Ok(listed)
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
    pub async fn create(
        self,
        route: WantedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        self.change(RouteChange::Create(route), is_current).await
    }

    /// Deletes a route. The result is the route; else as [`Routes::create`].
    ///
    /// # Errors
    /// The errors of [`Routes::create`].
    pub async fn delete(
        self,
        route: ObservedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        self.change(RouteChange::Delete(route), is_current).await
    }

    async fn change(
        self,
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
            &self.0.route_changes,
            route,
            self.0.preconditions.only_while(is_current),
        )
        .await
    }
}
