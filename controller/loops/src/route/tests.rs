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
use outrigger_runtime::fixture::Warnings;

mod conditions;
mod deletions;
mod failures;

const A: &str = "10.244.1.0/24";
const B: &str = "10.244.2.0/24";
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

/// R-10 with our default period: two lists an hour, and nothing else.
#[tokio::test(start_paused = true)]
async fn an_idle_cluster_has_two_lists_an_hour_and_no_writes() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    let (listed, changed) = (lists(&fixture), changes(&fixture));
    let written = fixture.api_writes().len();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        // A heartbeat of the kubelet.
        fixture.cluster.change_node("a", |_| {});
        fixture.refresh("a");
    }
    assert!(lists(&fixture) - listed <= 2);
    assert_eq!(changes(&fixture), changed);
    assert_eq!(fixture.api_writes().len(), written);
}

/// R-43, M-10.
#[tokio::test(start_paused = true)]
async fn lists_and_destinations_are_counted() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    next_list(&fixture).await;
    let metrics = fixture.metrics();
    let count = |outcome, trigger, count| {
        let series = format!(
            "route_controller_route_sync_total{{outcome=\"{outcome}\",trigger=\"{trigger}\"}} {count}\n"
        );
        assert!(metrics.contains(&series), "{series} of {metrics}");
    };
    count("noop", "periodic", 2);
    count("changed", "node_change", 1);
}

/// A kubelet that registers with a part of another Node's range, or with that of all: no traffic of others leads to it.
#[tokio::test(start_paused = true)]
async fn a_node_gets_no_route_to_addresses_of_another() {
    let warnings = Warnings::listen();
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.register(routed("b", 2, &["10.244.1.0/25"]));
    fixture.register(routed("c", 3, &["10.244.0.0/16"]));
    fixture.settle().await;
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(
        fixture.events(),
        ["DuplicatePodCIDR", "FailedToCreateRoute"]
    );
    assert_eq!(
        warnings
            .with("10.244.1.0/25 of Node b overlaps with 10.244.1.0/24 of Node a")
            .len(),
        1
    );
    assert_eq!(
        warnings.with("10.244.0.0/16 of Node c is wider than").len(),
        1
    );
    for refused in ["b", "c"] {
        assert_eq!(condition(&fixture, refused).as_deref(), NOT_CREATED);
    }
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    let metrics = fixture.metrics();
    assert!(
        metrics.contains("outrigger_node_route_problems_total{reason=\"DuplicatePodCIDR\"} 1"),
        "{metrics}"
    );

    // The route that another client deletes is made again, whoever waits for that.
    fixture.cloud.edit_routes(|table| {
        let name = table.iter().next().unwrap().name.clone();
        table.remove(&name).unwrap();
    });
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);

    // The next one has them once the first is gone.
    fixture.vanish("a");
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/25 b 192.168.0.2"]);
}

/// A standby remembers nothing; each lease term lists again.
#[tokio::test(start_paused = true)]
async fn a_new_lease_term_begins_with_a_list() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.end_term();
    fixture.settle().await;
    fixture.cloud.edit_routes(|table| {
        let name = table.iter().next().unwrap().name.clone();
        table.remove(&name).unwrap();
    });
    fixture.register(routed("b", 2, &[B]));
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(lists(&fixture), 2);
    assert_eq!(routes(&fixture).len(), 2);
}
