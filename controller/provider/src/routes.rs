//! Routes from Pod CIDRs to Nodes: the list, and changes.
//!
//! The node-route loop is the only caller. A list is complete or an error; a change asks once more right before it is sent
//! whether it is still wanted.

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    fault::Excerpt,
    node::NodeAddress,
    route::{ObservedRoute, RawRoute, WantedRoute},
};
use tracing::warn;

use super::{Error, Provider, lookup::NodeAnswer, wire};

/// The provider's answer about one route: as it is known after its creation or deletion, or why that is not known.
pub type RouteAnswer = NodeAnswer<ObservedRoute>;

fn answer(
    result: Result<ObservedRoute, Error>,
    effects: Option<v1::KubernetesEffects>,
) -> RouteAnswer {
    let effects = effects.map(wire::effects).unwrap_or_default();
    NodeAnswer { result, effects }
}

/// Calls about routes.
#[derive(Clone, Copy)]
pub struct Routes<'a>(pub(super) &'a Provider);

impl Routes<'_> {
    /// Lists every route of this cluster, all of them or an error. A route that breaks the contract is left
    /// out, with a warning.
    ///
    /// Waits while calls about routes are paused.
    ///
    /// # Errors
    /// Any [`Error`]: a list that is not complete is one.
    pub async fn list(self) -> Result<Vec<ObservedRoute>, Error> {
        let caller = &self.0.caller;
        let slot = caller.admit::<v1::ListRoutesRequest>().await?;
        let (mut listed, mut left_out, mut refused) = (Vec::new(), 0, None);
        let take = |entry: v1::Route| match raw(entry).check() {
            Ok(route) => listed.push(route),
            Err(fault) => {
                left_out += 1;
                refused = Some(fault);
            }
        };
        let request = v1::ListRoutesRequest::default();
        caller.list(&slot, request, take).await?;
        if let Some(error) = refused {
            let total = left_out + listed.len();
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
        let request = v1::CreateRouteRequest {
            context: None,
            route: Some(wanted(&route)),
        };
        match self.change(request, is_current).await {
            Ok(response) => answer(made(&route, response.found), response.effects),
            Err(error) => Err(error).into(),
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
        let request = v1::DeleteRouteRequest {
            context: None,
            route: Some(observed(&route)),
        };
        let response = match self.change(request, is_current).await {
            Ok(response) => response,
            Err(error) => return Err(error).into(),
        };
        let rpc = v1::DeleteRouteRequest::METHOD.name;
        let absent = response.absent.map(|_| route);
        let absent = absent.ok_or_else(|| Error::malformed(rpc, "deleted, but not absent"));
        answer(absent, response.effects)
    }

    async fn change<M: MethodRequest>(
        self,
        request: M,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<M::Response, Error> {
        let caller = self.0.only_while(is_current).caller;
        let slot = caller.admit::<M>().await?;
        caller.call(&slot, request).await
    }
}

/// The route that a creation has answered.
fn made(desired: &WantedRoute, shown: Option<v1::Route>) -> Result<ObservedRoute, Error> {
    let malformed = |what: &str| Error::malformed(v1::CreateRouteRequest::METHOD.name, what);
    let shown = shown.ok_or_else(|| malformed("made, but not found"))?;
    if shown == v1::Route::default() {
        return Ok(desired.as_made());
    }
    let made = raw(shown).check();
    let made = made.map_err(|fault| malformed(&fault.to_string()))?;
    if made.destination() != desired.destination {
        let shown = Excerpt::of(&made.raw().destination_cidr);
        return Err(malformed(&format!(
            "made, but shown as the route to {shown}"
        )));
    }
    Ok(made)
}

/// A route to be made.
fn wanted(route: &WantedRoute) -> v1::Route {
    v1::Route {
        destination_cidr: route.destination.to_string(),
        node_name: route.node_name.to_string(),
        provider_id: route.provider_id.to_string(),
        node_addresses: wire::addresses(&route.node_addresses),
        node_uid: route.node_uid.to_string(),
        ..v1::Route::default()
    }
}

/// A route exactly as the provider named it.
fn observed(route: &ObservedRoute) -> v1::Route {
    let raw = route.raw();
    v1::Route {
        name: raw.name.clone(),
        destination_cidr: raw.destination_cidr.clone(),
        node_name: raw.node_name.clone(),
        provider_id: raw.provider_id.clone(),
        node_addresses: wire::addresses(&raw.node_addresses),
        next_hop_ip: raw.next_hop_ip.clone(),
        blackhole: raw.is_blackhole,
        compare_node_addresses: raw.compares_addresses,
        node_uid: String::new(),
    }
}

/// A route as it arrives, unchecked.
fn raw(route: v1::Route) -> RawRoute {
    let addresses = route.node_addresses.into_iter();
    RawRoute {
        name: route.name,
        destination_cidr: route.destination_cidr,
        node_name: route.node_name,
        provider_id: route.provider_id,
        node_addresses: addresses
            .map(|address| NodeAddress {
                kind: address.r#type.into(),
                address: address.address.into(),
            })
            .collect(),
        next_hop_ip: route.next_hop_ip,
        is_blackhole: route.blackhole,
        compares_addresses: route.compare_node_addresses,
    }
}
