//! Routes as the contract asks for them.

use outrigger_provider_sdk::{Context, Error, RouteSink, Routes, WithEffects, v1};

use super::instances::{from_wire, internal_ip, to_wire};
use super::{MockProvider, cluster_of, effects};
use crate::cidr::Cidr;
use crate::provider::{ListedTarget, Respelled, ServedRoutes};
use crate::routes::{Route, RouteSpec, RouteTarget};

impl Routes for MockProvider {
    fn capability(&self) -> v1::RoutesCapability {
        let max_in_flight = self.served_routes().max_in_flight;
        v1::RoutesCapability { max_in_flight }
    }

    async fn list_routes(&self, ctx: &Context, routes: &mut RouteSink) -> Result<(), Error> {
        let (cloud, served, cluster) = (self.cloud(), self.served_routes(), cluster_of(ctx));
        let is_shown =
            |route: &Route| served.whole_table || route.cluster.as_ref() == Some(&cluster);
        let mut after: Option<String> = None;
        loop {
            let (page, more) = tokio::select! {
                () = ctx.cancelled() => return Err(Error::cancelled()),
                page = cloud.route_page(after.as_deref()) => page?,
            };
            for route in page.iter().filter(|route| is_shown(route)) {
                routes.send(served.listed(route)).await?;
            }
            after = page.last().map(|last| last.name.clone());
            if !more {
                return Ok(());
            }
        }
    }

    async fn create_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> Result<WithEffects<Option<v1::Route>>, Error> {
        let (cloud, served) = (self.cloud(), self.served_routes());
        let spec = RouteSpec {
            target: target_of(route),
            ..known(ctx, route)?
        };
        ctx.check()?;
        let made = cloud.create_route(spec).await.map_err(Error::from);
        match made {
            Ok(made) => {
                let listed = (!served.bare_results).then(|| served.listed(&made));
                let effects = served.effects.then(|| effects::of_route(&made));
                Ok(WithEffects::from(listed).with_effects(effects))
            }
            Err(error) => {
                let effects = served
                    .effects
                    .then(|| effects::of_refused_route(error.message()));
                Err(error.with_effects(effects))
            }
        }
    }

    async fn delete_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> Result<WithEffects<()>, Error> {
        let (cloud, served) = (self.cloud(), self.served_routes());
        let unwanted = known(ctx, route)?;
        ctx.check()?;
        cloud.delete_route(&unwanted, served.whole_table).await?;
        let effects = served.effects.then(effects::of_deleted_route);
        Ok(WithEffects::from(()).with_effects(effects))
    }
}

impl MockProvider {
    fn served_routes(&self) -> ServedRoutes {
        self.options().routes.clone().unwrap_or_default()
    }
}

impl ServedRoutes {
    /// A route as the list shows it.
    fn listed(&self, route: &Route) -> v1::Route {
        let target = &route.target;
        let mut listed = v1::Route {
            name: route.name.clone(),
            destination_cidr: route.destination.to_string(),
            blackhole: route.blackhole,
            ..v1::Route::default()
        };
        let shown = |by: ListedTarget| [by, ListedTarget::All].contains(&self.target);
        if shown(ListedTarget::NodeName) {
            listed.node_name = match self.respelled {
                Some(Respelled::NodeName) => target.node.to_uppercase(),
                _ => target.node.clone(),
            };
        }
        if shown(ListedTarget::ProviderId) {
            listed.provider_id = match self.respelled {
                Some(Respelled::ProviderId) => target.provider_id.replacen("://", ":///", 1),
                _ => target.provider_id.clone(),
            };
        }
        if shown(ListedTarget::NextHop) {
            let next_hop = match self.respelled {
                Some(Respelled::NextHop(ip)) => Some(ip),
                _ => target.next_hop,
            };
            listed.next_hop_ip = next_hop.map(|ip| ip.to_string()).unwrap_or_default();
        }
        if self.compared_addresses {
            listed.node_addresses = target.addresses.iter().map(to_wire).collect();
            listed.compare_node_addresses = true;
        }
        listed
    }
}

/// The fields of a route that every request about it has.
fn known(ctx: &Context, route: &v1::Route) -> Result<RouteSpec, Error> {
    let destination = route.destination_cidr.parse::<Cidr>();
    Ok(RouteSpec {
        name: route.name.clone(),
        cluster: cluster_of(ctx),
        destination: destination.map_err(Error::invalid_request)?,
        target: RouteTarget {
            node: route.node_name.clone(),
            provider_id: route.provider_id.clone(),
            next_hop: route.next_hop_ip.parse().ok(),
            addresses: Vec::new(),
        },
    })
}

/// Where a route shall lead: to the first `InternalIP` of its family.
fn target_of(route: &v1::Route) -> RouteTarget {
    let destination = route.destination_cidr.parse::<Cidr>();
    let is_like = |ip| destination.as_ref().is_ok_and(|cidr| cidr.is_like(ip));
    let next_hop = route
        .node_addresses
        .iter()
        .filter_map(internal_ip)
        .find(|ip| is_like(*ip));
    RouteTarget {
        node: route.node_name.clone(),
        provider_id: route.provider_id.clone(),
        next_hop,
        addresses: route.node_addresses.iter().filter_map(from_wire).collect(),
    }
}
