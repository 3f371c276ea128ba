//! Routes from Pod CIDRs to Nodes: the list, and changes.

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    effects::RawEffects,
    fault::Excerpt,
    route::{ObservedRoute, WantedRoute},
};
use tracing::warn;

use super::{Error, Provider, Session, admission::Urgency, gather::ListRequest, wire};

mod list;
mod message;

use list::CheckedRoutes;

/// The provider's answer about one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The route, as it is known after its creation or deletion, or why that is not known.
    pub result: Result<ObservedRoute, Error>,
    /// Effects on the Node that the provider wants written whatever the result is, unchecked.
    pub effects: RawEffects,
}

impl RouteAnswer {
    fn new(result: Result<ObservedRoute, Error>, effects: Option<v1::KubernetesEffects>) -> Self {
        let effects = effects.map(wire::effects).unwrap_or_default();
        Self { result, effects }
    }
}

impl From<Error> for RouteAnswer {
    fn from(error: Error) -> Self {
        Self {
            effects: error.effects().cloned().unwrap_or_default(),
            result: Err(error),
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

    /// Makes a route. The result is the route as the provider shows it, or else as it was sent; the loop checks that it
    /// leads to its Node.
    ///
    /// `is_current` is asked right before the request is sent: if not, the result is [`Error::Outdated`].
    /// It must not block. Waits while calls about routes are paused. Dropping the future cancels the call; what the
    /// provider has begun by then may still happen.
    ///
    /// # Errors
    /// Any [`Error`]; see [`Error::leaves_result_unknown`].
    pub async fn create(
        self,
        route: WantedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> RouteAnswer {
        let request = |_: &Session| v1::CreateRouteRequest {
            context: None,
            route: Some(message::wanted(&route)),
        };
        match self.change(request, is_current).await {
            Ok(answer) => RouteAnswer::new(made(&route, answer.found), answer.effects),
            Err(error) => error.into(),
        }
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
        let request = |_: &Session| v1::DeleteRouteRequest {
            context: None,
            route: Some(message::observed(&route)),
        };
        let answer = match self.change(request, is_current).await {
            Ok(answer) => answer,
            Err(error) => return error.into(),
        };
        let rpc = v1::DeleteRouteRequest::METHOD.name;
        let absent = answer.absent.map(|_| route);
        let absent = absent.ok_or_else(|| Error::malformed(rpc, "deleted, but not absent"));
        RouteAnswer::new(absent, answer.effects)
    }

    async fn change<M: MethodRequest>(
        self,
        request: impl Fn(&Session) -> M,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<M::Response, Error> {
        let (permit, session) = self.0.admit::<M>(Urgency::Routes).await?;
        let preconditions = self.0.preconditions.only_while(is_current);
        let shared = &self.0.shared;
        shared
            .call(&permit, &preconditions, &session, request)
            .await
    }
}

/// The route that a creation has answered.
fn made(desired: &WantedRoute, shown: Option<v1::Route>) -> Result<ObservedRoute, Error> {
    let malformed = |what: &str| Error::malformed(v1::CreateRouteRequest::METHOD.name, what);
    let shown = shown.ok_or_else(|| malformed("made, but not found"))?;
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
