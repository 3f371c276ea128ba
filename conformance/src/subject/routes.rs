//! Routes, called as the controller calls.

use ipnet::IpNet;
use outrigger_api::{
    MethodRequest as _,
    v1::{
        BatchGetInstancesRequest, CreateRouteRequest, DeleteRouteRequest, InstanceView,
        ListRoutesRequest, Node, Route, instance_result,
    },
};

use super::{Subject, patiently};
use crate::{
    call_error::CallError,
    inputs::limit,
    verdict::{Required as _, Verdict, expect, failed, skipped},
};

/// A method that changes routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `CreateRoute`.
    Create,
    /// `DeleteRoute`.
    Delete,
}

/// The route as the provider answered it, or else as it was sent; or its error.
pub(crate) type Changed = Result<Route, CallError>;

impl Change {
    const fn rpc(self) -> &'static str {
        match self {
            Self::Create => CreateRouteRequest::METHOD.name,
            Self::Delete => DeleteRouteRequest::METHOD.name,
        }
    }
}

/// The route of an answer to a create; fails where it is none that a create may have.
fn made(route: &Route, answer: Option<Route>) -> Verdict<Route> {
    let answer = answer.ok_or_else(|| failed("the success of CreateRoute is found", "none"))?;
    // Kept as it was sent.
    if answer == Route::default() {
        return Ok(route.clone());
    }
    expect(
        destination(&answer) == destination(route),
        "CreateRoute answers the route that was asked for",
        format!("{answer:?}"),
    )?;
    Ok(answer)
}

impl Subject {
    /// The Nodes of all machines that exist, with the addresses that a lookup names.
    pub(crate) async fn route_targets(&self) -> Verdict<Vec<Node>> {
        let mut nodes = self.target_nodes();
        if self.capabilities().instances.is_none() {
            return Ok(nodes);
        }
        let request = BatchGetInstancesRequest {
            items: nodes.clone(),
            view: InstanceView::Metadata.into(),
            ..BatchGetInstancesRequest::default()
        };
        for (node, answered) in nodes.iter_mut().zip(self.client.batch(request).await??) {
            if let Ok(instance_result::Outcome::Found(instance)) = answered
                && !instance.addresses.is_empty()
            {
                node.addresses = instance.addresses;
            }
        }
        Ok(nodes)
    }

    /// So many of these parts.
    pub(crate) async fn free_cidrs(&self, range: IpNet, count: usize) -> Verdict<Vec<IpNet>> {
        let listed = self.list_routes().await?;
        let free: Vec<_> = free_parts(range, &listed).take(count).collect();
        if free.len() < count {
            return Err(skipped(format!(
                "{range} of cluster.podCIDRs has no {count} parts without a route"
            )));
        }
        Ok(free)
    }

    /// A route for a create. It is deleted after the case.
    pub(crate) fn route(&self, destination: IpNet, node: &Node) -> Route {
        self.leftovers().expect_route(destination);
        Route {
            destination_cidr: destination.to_string(),
            node_name: node.name.clone(),
            provider_id: node.provider_id.clone(),
            node_addresses: node.addresses.clone(),
            node_uid: node.uid.clone(),
            ..Route::default()
        }
    }

    /// So many routes to one Node, in free parts of the first range of Pod CIDRs.
    pub(crate) async fn new_routes(&self, node: &Node, count: usize) -> Verdict<Vec<Route>> {
        let Some(range) = self.inputs().cluster.pod_cidrs.first() else {
            return Err(skipped("cluster.podCIDRs is empty"));
        };
        let free = self.free_cidrs(*range, count).await?;
        Ok(free.into_iter().map(|one| self.route(one, node)).collect())
    }

    /// All routes of this cluster; the list must be complete.
    pub(crate) async fn list_routes(&self) -> Verdict<Vec<Route>> {
        let listed = self.client.list(ListRoutesRequest::default()).await?;
        expect(
            listed.is_complete(),
            "ListRoutes ends with a message that has complete",
            format!("complete by message: {:?}", listed.completes),
        )?;
        Ok(listed.entries)
    }

    /// One call. Fails where its success is none that the method may have.
    pub(crate) async fn change_route(&self, change: Change, route: &Route) -> Verdict<Changed> {
        let (context, sent) = (None, Some(route.clone()));
        match change {
            Change::Create => {
                let request = CreateRouteRequest {
                    context,
                    route: sent,
                };
                match self.client.call(request).await {
                    Ok(answer) => made(route, answer.found).map(Ok),
                    Err(error) => Ok(Err(error)),
                }
            }
            Change::Delete => {
                let request = DeleteRouteRequest {
                    context,
                    route: sent,
                };
                match self.client.call(request).await {
                    Ok(answer) => {
                        let (expected, actual) = ("the success of DeleteRoute is absent", "none");
                        expect(answer.absent.is_some(), expected, actual)?;
                        Ok(Ok(route.clone()))
                    }
                    Err(error) => Ok(Err(error)),
                }
            }
        }
    }

    /// Calls until each route is OK, as the controller does. The routes as they were answered.
    pub(crate) async fn change_routes(
        &self,
        change: Change,
        routes: &[Route],
    ) -> Verdict<Vec<Route>> {
        let limits = &self.inputs().limits;
        let within = match change {
            Change::Create => limit(limits.ready),
            Change::Delete => limit(limits.gone),
        };
        let mut ended = Vec::with_capacity(routes.len());
        for route in routes {
            let call = async || match self.change_route(change, route).await {
                Ok(changed) => changed.map(Ok),
                Err(stop) => Ok(Err(stop)),
            };
            let expected = format!("{} is OK within {within:?}", change.rpc());
            ended.push(patiently(within, call).await.required(expected)??);
        }
        Ok(ended)
    }

    /// Creates until each route is OK.
    pub(crate) async fn create_routes(&self, routes: &[Route]) -> Verdict<Vec<Route>> {
        self.change_routes(Change::Create, routes).await
    }

    /// Deletes until each route is OK.
    pub(crate) async fn delete_routes(&self, routes: &[Route]) -> Verdict {
        let deleted = self.change_routes(Change::Delete, routes).await;
        deleted.map(drop)
    }
}

/// Parts of a range of Pod CIDRs to which no listed route leads.
fn free_parts(range: IpNet, listed: &[Route]) -> impl Iterator<Item = IpNet> {
    let taken: Vec<_> = listed.iter().filter_map(destination).collect();
    let is_free = move |block: &IpNet| {
        let overlaps = |other: &IpNet| block.contains(other) || other.contains(block);
        !taken.iter().any(overlaps)
    };
    let blocks = range.subnets(block_length(range)).into_iter().flatten();
    blocks.filter(is_free)
}

/// The length of the parts of a range in which routes are made: as Nodes mostly have them.
fn block_length(range: IpNet) -> u8 {
    let usual = if matches!(range, IpNet::V4(_)) {
        24
    } else {
        64
    };
    let parts = range.prefix_len().saturating_add(8);
    usual.max(parts).min(range.max_prefix_len())
}

/// Where a route of a list leads from, in any spelling.
pub(crate) fn destination(route: &Route) -> Option<IpNet> {
    let read = route.destination_cidr.parse::<IpNet>();
    read.ok().map(|net| net.trunc())
}

/// The routes to the destination of another one.
pub(crate) fn routes_to<'a>(listed: &'a [Route], route: &Route) -> Vec<&'a Route> {
    let same = |one: &&Route| destination(one).is_some() && destination(one) == destination(route);
    listed.iter().filter(same).collect()
}

/// True if a listed route leads to the Node, by any of the fields that may name it.
pub(crate) fn leads_to(route: &Route, node: &Node) -> bool {
    let hop = &route.next_hop_ip;
    let is_hop = |text: &str| !hop.is_empty() && text == hop;
    (!route.node_name.is_empty() && route.node_name == node.name)
        || (!route.provider_id.is_empty() && route.provider_id == node.provider_id)
        || node.addresses.iter().any(|one| is_hop(&one.address))
}
