//! Routes, called as the controller calls.

use std::time::Duration;

use ipnet::IpNet;
use outrigger_api::{
    MethodRequest as _,
    v1::{
        BatchCreateRoutesRequest, BatchDeleteRoutesRequest, BatchGetInstancesRequest, CallContext,
        InstanceView, ListRoutesRequest, Node, Route, instance_result, route_result::Outcome,
    },
};
use tokio::time::{Instant, sleep};

use super::{Subject, batch_size, is_passing};
use crate::{
    call_error::CallError,
    inputs::limit,
    verdict::{Verdict, expect, failed, skipped},
};

/// A method that changes routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `BatchCreateRoutes`.
    Create,
    /// `BatchDeleteRoutes`.
    Delete,
}

/// The route as the provider answered it, or else as it was sent; or its error.
pub(crate) type Changed = Result<Route, CallError>;

/// The wait between two calls about one route, where the provider names none.
const WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Change {
    const fn rpc(self) -> &'static str {
        match self {
            Self::Create => BatchCreateRoutesRequest::METHOD.name,
            Self::Delete => BatchDeleteRoutesRequest::METHOD.name,
        }
    }

    /// The route that a success means; fails where the outcome is none that the method may have.
    fn judge(self, route: &Route, answered: Result<Outcome, CallError>) -> Verdict<Changed> {
        let rpc = self.rpc();
        match (self, answered) {
            (_, Err(error)) => Ok(Err(error)),
            // Kept as it was sent.
            (Self::Create, Ok(Outcome::Found(made))) if made == Route::default() => {
                Ok(Ok(route.clone()))
            }
            (Self::Create, Ok(Outcome::Found(made))) => {
                expect(
                    destination(&made) == destination(route),
                    format!("{rpc} answers the route that was asked for"),
                    format!("{made:?}"),
                )?;
                Ok(Ok(made))
            }
            (Self::Delete, Ok(Outcome::Absent(_))) => Ok(Ok(route.clone())),
            (_, Ok(other)) => {
                let success = if self == Self::Create {
                    "found"
                } else {
                    "absent"
                };
                let expected = format!("the success of {rpc} is {success}");
                Err(failed(expected, format!("{other:?}")))
            }
        }
    }
}

impl Subject {
    /// Most routes of one batch.
    pub(crate) fn route_batch(&self) -> usize {
        let declared = self.capabilities().routes.unwrap_or_default();
        batch_size(declared.max_batch_size)
    }

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

    /// Parts of a range of Pod CIDRs to which no listed route leads; at most so many.
    pub(crate) async fn free_parts(&self, range: IpNet, most: usize) -> Verdict<Vec<IpNet>> {
        let listed = self.list_routes().await?;
        let taken: Vec<_> = listed.iter().filter_map(destination).collect();
        let is_free = |block: &IpNet| {
            let overlaps = |other: &IpNet| block.contains(other) || other.contains(block);
            !taken.iter().any(overlaps)
        };
        let blocks = range.subnets(block_length(range)).into_iter().flatten();
        Ok(blocks.filter(is_free).take(most).collect())
    }

    /// So many of these parts.
    pub(crate) async fn free_cidrs(&self, range: IpNet, count: usize) -> Verdict<Vec<IpNet>> {
        let free = self.free_parts(range, count).await?;
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
        self.list_routes_of(None).await
    }

    /// The same for the cluster of a context.
    pub(crate) async fn list_routes_of(&self, context: Option<CallContext>) -> Verdict<Vec<Route>> {
        let listed = self.client.list(ListRoutesRequest { context }).await?;
        expect(
            listed.is_complete(),
            "ListRoutes ends with a message that has complete",
            format!("complete by message: {:?}", listed.completes),
        )?;
        Ok(listed.entries)
    }

    /// One call, with one outcome for each route in their order. The error of the call is that of each.
    pub(crate) async fn change_routes_once(
        &self,
        change: Change,
        context: Option<CallContext>,
        routes: &[Route],
    ) -> Verdict<Vec<Changed>> {
        let items = routes.to_vec();
        let answered = match change {
            Change::Create => {
                let request = BatchCreateRoutesRequest { context, items };
                self.client.batch(request).await?
            }
            Change::Delete => {
                let request = BatchDeleteRoutesRequest { context, items };
                self.client.batch(request).await?
            }
        };
        match answered {
            Ok(answered) => {
                let both = routes.iter().zip(answered);
                both.map(|(route, one)| change.judge(route, one)).collect()
            }
            Err(error) => Ok(vec![Err(error); routes.len()]),
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
        for batch in routes.chunks(self.route_batch()) {
            let started = Instant::now();
            loop {
                let changed = self.change_routes_once(change, None, batch).await?;
                let error = changed.iter().find_map(|one| one.as_ref().err()).cloned();
                let Some(error) = error else {
                    ended.extend(changed.into_iter().flatten());
                    break;
                };
                let fatal = changed.iter().filter_map(|one| one.as_ref().err());
                let fatal = fatal.into_iter().find(|error| !is_passing(error));
                if fatal.is_some() || started.elapsed() > within {
                    let expected = format!("{} is OK within {within:?}", change.rpc());
                    return Err(failed(expected, fatal.unwrap_or(&error)));
                }
                let wait = error.retry_after.unwrap_or(WAIT);
                sleep(wait.clamp(WAIT, LONGEST_WAIT)).await;
            }
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
