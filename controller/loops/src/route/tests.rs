//! The loop hosted by the fixture.

use std::{sync::Arc, time::Duration};

use outrigger_core::{cidr::Cidr, route::RouteRange};
use outrigger_provider_mock::{
    ListedTarget, ProviderOptions, ServedRoutes,
    cidr::Cidr as MockCidr,
    faults::{Effect, Fault, Method},
    routes::{Route, RouteTarget},
};
use serde_json::{Value, json};

use super::{COMPONENT, NodeRoute, RouteMetrics, RouteSettings, subscribe};
use crate::fixture::{Fixture, Setup};
use outrigger_kube::fixture::settled;

mod conditions;
mod deletions;
mod failures;
mod nodes;

/// UID of the fixture's cluster.
const CLUSTER: &str = "uid-of-kube-system";
const PERIOD: Duration = Duration::from_mins(30);

/// How the loop of a test is made.
struct Rig {
    served: ServedRoutes,
    max_routes: Option<usize>,
    nodes: Vec<Value>,
    routes: Vec<Route>,
    period: Duration,
}

impl Default for Rig {
    fn default() -> Self {
        Self {
            served: ServedRoutes::default(),
            max_routes: None,
            nodes: Vec::new(),
            routes: Vec::new(),
            period: PERIOD,
        }
    }
}

impl Rig {
    /// Nodes and routes that are there before.
    fn with(nodes: impl Into<Vec<Value>>, routes: impl Into<Vec<Route>>) -> Self {
        Self {
            nodes: nodes.into(),
            routes: routes.into(),
            ..Self::default()
        }
    }

    fn listed_by(self, target: ListedTarget) -> Self {
        let served = ServedRoutes {
            target,
            ..self.served
        };
        Self { served, ..self }
    }

    /// Everything but a lease term.
    fn prepare(self) -> Fixture {
        let mut fixture = Fixture::new(Setup {
            cloud: crate::fixture::cloud(|config| config.max_routes = self.max_routes),
            provider: ProviderOptions {
                routes: Some(self.served),
                ..ProviderOptions::default()
            },
            ..Setup::default()
        });
        for route in self.routes {
            add(&fixture, route);
        }
        let inputs = subscribe(&fixture.nodes, &fixture.queues);
        let range = |text| RouteRange {
            cidr: Cidr::parse(text).unwrap(),
            node_prefix: None,
        };
        let settings = RouteSettings {
            ranges: ["10.244.0.0/16", "fd00::/48"].map(range).into(),
            period: self.period,
            selector: None,
        };
        let metrics = RouteMetrics::register(&mut fixture.registry);
        fixture.host(COMPONENT, inputs, move |context| {
            NodeRoute::new(context, settings.clone(), metrics.clone())
        });
        for node in self.nodes {
            fixture.register(node);
        }
        fixture
    }

    /// The loop in its first lease term, when it rests.
    async fn begun(self) -> Fixture {
        let fixture = self.prepare();
        fixture.nodes.finish_list(|_| true);
        fixture.begin_term();
        fixture.settle().await;
        fixture
    }
}

fn add(fixture: &Fixture, route: Route) {
    let added = fixture.cloud.edit_routes(|table| table.insert(route));
    added.unwrap();
}

/// An initialised Node with the address 192.168.0.`last`.
fn routed(name: &str, last: u8, cidrs: &[&str]) -> Value {
    let mut node = settled(name, &format!("mock://i-{name}"), "True");
    node["spec"]["podCIDR"] = cidrs.first().copied().into();
    node["spec"]["podCIDRs"] = cidrs.into();
    node["status"]["addresses"] = json!([
        {"type": "InternalIP", "address": format!("192.168.0.{last}")},
        {"type": "InternalIP", "address": format!("fd01::{last}")},
    ]);
    node
}

/// The route that the mock creates for the Node of [`routed`].
fn route(destination: &str, node: &str, last: u8) -> Route {
    Route {
        name: format!("to-{destination}"),
        cluster: Some(CLUSTER.to_owned()),
        destination: destination.parse().unwrap(),
        target: RouteTarget {
            node: node.to_owned(),
            provider_id: format!("mock://i-{node}"),
            next_hop: Some(format!("192.168.0.{last}").parse().unwrap()),
            addresses: Vec::new(),
        },
        blackhole: false,
        created_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// `destination node next-hop` of all routes in the cloud, in order.
fn routes(fixture: &Fixture) -> Vec<String> {
    let shown = |route: Arc<Route>| {
        let RouteTarget { node, next_hop, .. } = &route.target;
        let hop = next_hop.map(|hop| hop.to_string()).unwrap_or_default();
        format!("{} {node} {hop}", route.destination)
    };
    let mut routes: Vec<_> = fixture.cloud.routes().into_iter().map(shown).collect();
    routes.sort();
    routes
}

fn change_route(fixture: &Fixture, destination: &str, change: impl FnOnce(&mut Route)) {
    let destination: MockCidr = destination.parse().unwrap();
    fixture.cloud.edit_routes(|table| {
        let mut route = Route::clone(table.to(destination).next().unwrap());
        change(&mut route);
        table.replace(route).unwrap();
    });
}

fn network_unavailable(fixture: &Fixture, node: &str) -> Option<Value> {
    let live = fixture.live(node);
    let mut conditions = live["status"]["conditions"].as_array()?.iter();
    conditions
        .find(|condition| condition["type"] == "NetworkUnavailable")
        .cloned()
}

/// `status reason` of the Node's condition.
fn condition(fixture: &Fixture, node: &str) -> Option<String> {
    let condition = network_unavailable(fixture, node)?;
    let word = |key: &str| condition[key].as_str().unwrap().to_owned();
    Some([word("status"), word("reason")].join(" "))
}

fn message(fixture: &Fixture, node: &str) -> String {
    let condition = network_unavailable(fixture, node).unwrap();
    condition["message"].as_str().unwrap().to_owned()
}

const CREATED: Option<&str> = Some("False RouteCreated");
const NOT_CREATED: Option<&str> = Some("True NoRouteCreated");

/// Calls that the provider received.
fn asked(fixture: &Fixture, method: &str) -> u64 {
    let counters = fixture.cloud.counters();
    counters.cloud.get(method).map_or(0, |calls| calls.served)
}

fn changes(fixture: &Fixture) -> u64 {
    asked(fixture, "CreateRoute") + asked(fixture, "DeleteRoute")
}

fn lists(fixture: &Fixture) -> u64 {
    fixture.calls("ListRoutes")
}

fn inject(fixture: &Fixture, method: Method, effect: Effect, times: u64) {
    let fault = Fault::on(method, effect).times(times);
    fixture.cloud.inject(fault);
}

/// Lets an idle period of the list pass.
async fn next_list(fixture: &Fixture) {
    let before = lists(fixture);
    tokio::time::sleep(PERIOD).await;
    fixture.settle().await;
    assert!(lists(fixture) > before);
}
