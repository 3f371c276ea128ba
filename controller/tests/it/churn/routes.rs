//! The route table of the cloud: the drill's own changes of it, and whether it agrees with the Nodes.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use outrigger_core::node::NETWORK_UNAVAILABLE;
use outrigger_provider_mock::{
    control::{
        Client, EditRoutes, NewRoute, Targets,
        operations::{ADD_ROUTE, EDIT_ROUTES, REMOVE_ROUTES, ROUTES},
    },
    routes::{Route, RouteTarget},
};

use super::{
    disruption::Meddling,
    ledger::Ledger,
    pod_cidrs::{length, pod_cidrs},
};
use crate::{cluster::SYSTEM, stage::Stage};

/// A deviation of the table from the Nodes.
pub(super) struct Complaint {
    /// The Node that lacks something; none: a route should not be there.
    pub(super) node: Option<String>,
    pub(super) text: String,
}

/// Reads and changes the table, beside all processes of a drill.
#[derive(Clone)]
pub(super) struct Routes {
    cloud: Client,
    ledger: Ledger,
    /// UID of the cluster: the tag of its routes.
    cluster: String,
    ranges: Vec<IpNet>,
    /// The routes that no controller may touch.
    foreign: Vec<Route>,
}

impl Complaint {
    fn of(node: &str, text: String) -> Self {
        Self {
            node: Some(node.to_owned()),
            text,
        }
    }
}

impl Routes {
    /// Puts routes of others into the table.
    pub(super) async fn new(stage: &Stage, ranges: &[IpNet], ledger: &Ledger) -> Self {
        let namespaces: Api<Namespace> = Api::all(stage.admin());
        let system = namespaces.get(SYSTEM).await.unwrap();
        let mut routes = Self {
            cloud: Client::new(stage.dir().join("provider.sock.ctl")),
            ledger: ledger.clone(),
            cluster: system.metadata.uid.unwrap(),
            ranges: ranges.to_owned(),
            foreign: Vec::new(),
        };
        let (ours, other) = (Some(routes.cluster.clone()), Some("another".to_owned()));
        for (destination, cluster, blackhole) in [
            ("192.0.2.0/24", None, false),
            ("198.51.100.0/24", None, true),
            // Inside the cluster CIDR, and around it.
            ("10.244.0.0/28", other, false),
            ("10.0.0.0/8", ours.clone(), false),
            ("203.0.113.0/24", ours, false),
        ] {
            let new = NewRoute {
                cluster,
                blackhole,
                ..elsewhere(destination.parse().unwrap())
            };
            let added = routes.cloud.ask(ADD_ROUTE, &new).await.unwrap();
            routes.foreign.extend(added.routes);
        }
        routes.foreign.sort_by(|a, b| a.name.cmp(&b.name));
        routes
    }

    /// Deviations of the table from the Nodes.
    pub(super) async fn complaints(&self, nodes: &[Node]) -> Result<Vec<Complaint>, String> {
        let (mut ours, mut foreign) = self.shown().await?;
        let mut complaints = Vec::new();
        for node in nodes {
            let name = node.metadata.name.as_deref().unwrap();
            for cidr in pod_cidrs(node) {
                let cidr: IpNet = cidr.parse().unwrap();
                let its = ours.extract_if(.., |route| IpNet::from(route.destination) == cidr);
                let its: Vec<_> = its.map(|route| target(&route)).collect();
                let expected = wanted(node, cidr);
                if its != [expected.clone()] {
                    let text = format!("{name}: {cidr} leads to {its:?} instead of {expected:?}");
                    complaints.push(Complaint::of(name, text));
                }
            }
            let condition = condition(node);
            if condition != Some(("False", "RouteCreated")) {
                let text = format!("{name}: {NETWORK_UNAVAILABLE} is {condition:?}");
                complaints.push(Complaint::of(name, text));
            }
        }
        let stale = ours.iter().map(|route| {
            let Route {
                name, destination, ..
            } = route;
            let leads = target(route);
            Complaint {
                node: None,
                text: format!("the route {name} to {destination} leads to {leads:?}"),
            }
        });
        complaints.extend(stale);
        foreign.sort_by(|a, b| a.name.cmp(&b.name));
        if foreign != self.foreign {
            let text = format!(
                "routes of others: {foreign:?} instead of {:?}",
                self.foreign
            );
            complaints.push(Complaint { node: None, text });
        }
        Ok(complaints)
    }

    /// Changes a route of the cluster, the so many-th, or adds one, as a user of the cloud.
    pub(super) async fn meddle(&self, meddling: Meddling, number: usize) {
        // Without a provider there is no cloud to change.
        let Ok((ours, _)) = self.shown().await else {
            return;
        };
        let range = self.ranges[number % self.ranges.len()];
        let mut blocks = range.subnets(length(&range)).unwrap();
        let block = blocks.nth(number % (1 << (length(&range) - range.prefix_len())));
        if meddling == Meddling::Add {
            let new = NewRoute {
                cluster: Some(self.cluster.clone()),
                ..elsewhere(block.unwrap())
            };
            self.ledger.change_route(block.unwrap());
            let _ = self.cloud.ask(ADD_ROUTE, &new).await;
            return;
        }
        if ours.is_empty() {
            return;
        }
        let (route, other) = (
            &ours[number % ours.len()],
            &ours[(number + 1) % ours.len()].target,
        );
        let targets = vec![route.name.clone()];
        self.ledger.change_route(route.destination.into());
        if meddling == Meddling::Remove {
            let only = Targets {
                targets,
                ..Targets::default()
            };
            let _ = self.cloud.ask(REMOVE_ROUTES, &only).await;
            return;
        }
        let elsewhere = elsewhere(route.destination.into()).target;
        let target = if number.is_multiple_of(2) {
            other
        } else {
            &elsewhere
        };
        let mut edit = EditRoutes {
            targets,
            ..EditRoutes::default()
        };
        if meddling == Meddling::Blackhole {
            edit.blackhole = Some(true);
        } else {
            edit.node = Some(target.node.clone());
            edit.provider_id = Some(target.provider_id.clone());
            edit.next_hop = target.next_hop;
        }
        let _ = self.cloud.ask(EDIT_ROUTES, &edit).await;
    }

    /// Puts a blackhole that names no target in the place of each route to a Node.
    pub(super) async fn strand(&self, node: &str) {
        let (ours, _) = self.shown().await.unwrap();
        for route in ours.into_iter().filter(|route| route.target.node == node) {
            let only = Targets {
                targets: vec![route.name],
                ..Targets::default()
            };
            let nowhere = NewRoute {
                destination: route.destination,
                name: None,
                cluster: Some(self.cluster.clone()),
                target: RouteTarget::default(),
                blackhole: true,
            };
            self.ledger.change_route(route.destination.into());
            self.cloud.ask(REMOVE_ROUTES, &only).await.unwrap();
            self.cloud.ask(ADD_ROUTE, &nowhere).await.unwrap();
        }
    }

    /// Those of the cluster to its Pod CIDRs, and all others.
    async fn shown(&self) -> Result<(Vec<Route>, Vec<Route>), String> {
        let shown = self.cloud.ask(ROUTES, &()).await;
        let shown = shown.map_err(|error| error.to_string())?.routes;
        let is_inside = |route: &Route| {
            let destination = IpNet::from(route.destination);
            self.ranges.iter().any(|range| range.contains(&destination))
        };
        let is_ours =
            |route: &Route| route.cluster.as_ref() == Some(&self.cluster) && is_inside(route);
        Ok(shown.into_iter().partition(is_ours))
    }
}

/// A route of no cluster to a machine that no Node has.
fn elsewhere(destination: IpNet) -> NewRoute {
    let next_hop = match destination {
        IpNet::V4(_) => IpAddr::from([192, 0, 2, 9]),
        IpNet::V6(_) => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9]),
    };
    NewRoute {
        destination: destination.into(),
        name: None,
        cluster: None,
        target: RouteTarget {
            node: "elsewhere".to_owned(),
            provider_id: "mock://i-elsewhere".to_owned(),
            next_hop: Some(next_hop),
            addresses: Vec::new(),
        },
        blackhole: false,
    }
}

/// Name, provider ID and next hop.
type Leads = (String, String, Option<IpAddr>, bool);

fn target(route: &Route) -> Leads {
    let target = route.target.clone();
    let RouteTarget {
        node,
        provider_id,
        next_hop,
        ..
    } = target;
    (node, provider_id, next_hop, route.blackhole)
}

fn wanted(node: &Node, cidr: IpNet) -> Leads {
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let status = node.status.as_ref();
    let addresses = status.iter().flat_map(|status| &status.addresses).flatten();
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let internal = internal.map(|address| address.address.parse::<IpAddr>().unwrap());
    let mut next_hops = internal.filter(|ip| ip.is_ipv4() == cidr.addr().is_ipv4());
    (
        node.metadata.name.clone().unwrap(),
        provider_id.unwrap_or_default(),
        next_hops.next(),
        false,
    )
}

/// Status and reason of the condition.
fn condition(node: &Node) -> Option<(&str, &str)> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|one| one.type_ == NETWORK_UNAVAILABLE)?;
    Some((&condition.status, condition.reason.as_deref()?))
}
