use std::{slice::from_ref, sync::Arc};

use super::{Confirmation, RouteFacts, RoutePlan, RouteStep, plan};
use crate::{
    fixture::{addresses, cidr, map, ranges, raw_route, registered, route, routed},
    node::{
        LABEL_PAUSED, NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{ObservedRoute, RawRoute, RouteNodes, RouteRange, RouteTable, WantedRoute},
};

mod overlaps;

const A: &str = "10.244.1.0/24";

/// The facts of one test, and the plan for the destination [`A`].
struct Case {
    table: RouteTable,
    nodes: RouteNodes,
    is_synced: bool,
    confirmed: Vec<Confirmation>,
    keeps_lost: bool,
    ranges: [RouteRange; 2],
}

impl Case {
    fn new(routes: &[ObservedRoute], nodes: &[NodeView]) -> Self {
        let mut case = Self {
            table: RouteTable::default(),
            nodes: RouteNodes::default(),
            is_synced: true,
            confirmed: Vec::new(),
            keeps_lost: false,
            ranges: ranges(None, None),
        };
        let start = case.table.list_begins();
        case.table.list_completed(start, routes.iter().cloned());
        for node in nodes {
            case.nodes.observe(&Arc::new(node.clone()));
        }
        case
    }

    fn confirmed(mut self, node: &str) -> Self {
        self.confirmed.push(Confirmation::Node(node.into()));
        self
    }

    fn plan(&self, destination: &str) -> RoutePlan {
        let prefixes = Prefixes::new("cloud", [""; 0]).unwrap();
        let facts = RouteFacts {
            list_failure: None,
            keeps_lost: self.keeps_lost,
            table: &self.table,
            nodes: &self.nodes,
            is_synced: self.is_synced,
            confirmed: &self.confirmed,
            scope: NodeScope {
                prefixes: &prefixes,
                selector: None,
                foreign_prefix_seen: false,
            },
            without_provider_id: false,
            ranges: &self.ranges,
        };
        plan(cidr(destination), &facts)
    }

    fn step(&self) -> RouteStep {
        self.plan(A).step
    }

    /// The messages about Nodes that get no route to `destination`.
    fn refused(&self, destination: &str) -> Vec<String> {
        let refused = self.plan(destination).refused;
        refused.iter().map(ToString::to_string).collect()
    }
}

fn to(name: &str) -> ObservedRoute {
    route(A, name)
}

fn a() -> NodeView {
    routed("a", 1, A)
}

fn ask(node: &str) -> RouteStep {
    RouteStep::Confirm(Confirmation::Node(node.into()))
}

///
#[test]
fn a_node_gets_the_route_that_it_lacks() {
    let create = RouteStep::Create(WantedRoute::of(cidr(A), &a()));
    assert_eq!(Case::new(&[], &[a()]).step(), create);
    assert_eq!(
        Case::new(&[route("10.244.2.0/24", "a")], &[a()]).step(),
        create
    );
    assert_eq!(Case::new(&[to("a")], &[a()]).step(), RouteStep::Keep);
    assert_eq!(Case::new(&[], &[]).step(), RouteStep::Nothing);
    //
    let v6 = routed("a", 1, "FD00::/64");
    let routes = [route("fd00:0:0::9/64", "a")];
    assert_eq!(
        Case::new(&routes, &[v6]).plan("fd00::/64").step,
        RouteStep::Keep
    );
    // Before the first list, and after an unknown result.
    let mut case = Case::new(&[], &[a()]);
    case.table = RouteTable::default();
    assert_eq!(case.step(), RouteStep::List);
    let mut case = Case::new(&[to("a")], &[]).confirmed("a");
    case.table.call_begins(cidr(A));
    case.table.result_unknown(cidr(A));
    assert_eq!(case.step(), RouteStep::List);
}

/// A restore of etcd takes Nodes away whose machines are there.
#[test]
fn while_etcd_may_have_gone_back_a_route_stays_whose_node_is_not_there() {
    let lost = [to("gone")];
    let mut case = Case::new(&lost, &[]).confirmed("gone");
    case.keeps_lost = true;
    assert_eq!(case.step(), RouteStep::Nothing);
    // Another Node has the destination by now, or the Node is there with another one.
    for nodes in [&[routed("b", 1, A)], &[routed("gone", 1, "10.244.2.0/24")]] {
        let mut case = Case::new(&lost, nodes).confirmed("gone");
        case.keeps_lost = true;
        assert_eq!(case.step(), RouteStep::Delete(to("gone")));
    }
}

///
#[test]
fn a_route_is_deleted_only_once_the_api_server_was_asked() {
    let stale = [to("gone")];
    assert_eq!(Case::new(&stale, &[]).step(), ask("gone"));
    let delete = RouteStep::Delete(to("gone"));
    assert_eq!(Case::new(&stale, &[]).confirmed("gone").step(), delete);
    assert_eq!(
        Case::new(&stale, &[]).confirmed("other").step(),
        ask("gone")
    );
    // The answer was that it is there, and has the CIDR.
    let is_there = Case::new(&stale, &[routed("gone", 1, A)]).confirmed("gone");
    assert_eq!(is_there.step(), RouteStep::Keep);
    // It has another one.
    let other = Case::new(&stale, &[routed("gone", 1, "10.244.2.0/24")]);
    assert_eq!(other.step(), ask("gone"));
    assert_eq!(other.confirmed("gone").step(), delete);
    let mut unsynced = Case::new(&stale, &[]).confirmed("gone");
    unsynced.is_synced = false;
    assert_eq!(unsynced.step(), RouteStep::Nothing);
    // Without a name: the Node that the provider ID is of, or all of them.
    let by_id = RawRoute {
        provider_id: "cloud://a".into(),
        ..raw_route(A, "")
    };
    let by_id = [by_id.check().unwrap()];
    assert_eq!(
        Case::new(&by_id, &[routed("a", 1, "10.244.2.0/24")]).step(),
        ask("a")
    );
    let mut unknown = Case::new(&by_id, &[]);
    assert_eq!(unknown.step(), RouteStep::Confirm(Confirmation::AllNodes));
    unknown.confirmed.push(Confirmation::AllNodes);
    assert_eq!(unknown.step(), RouteStep::Delete(by_id[0].clone()));
}

/// first it is deleted, and the next plan makes it.
#[test]
fn a_route_to_another_machine_or_address_is_made_again() {
    let moved = NodeView {
        provider_id: "cloud://b".into(),
        ..a()
    };
    let readdressed = NodeView {
        addresses: addresses("InternalIP=192.168.0.9"),
        ..a()
    };
    let by_hop = RawRoute {
        next_hop_ip: "192.168.0.1".into(),
        ..raw_route(A, "a")
    };
    let by_addresses = RawRoute {
        compares_addresses: true,
        node_addresses: a().addresses.to_vec(),
        ..raw_route(A, "a")
    };
    for (raw, now) in [
        (raw_route(A, "a"), &moved),
        (by_hop, &readdressed),
        (by_addresses, &readdressed),
    ] {
        let changed = raw.check().unwrap();
        let mut case = Case::new(from_ref(&changed), &[a()]);
        assert_eq!(case.step(), RouteStep::Keep);
        case.table.keep(cidr(A), &case.nodes);
        case.nodes.observe(&Arc::new(now.clone()));
        assert_eq!(case.step(), ask("a"));
        case = case.confirmed("a");
        assert_eq!(case.step(), RouteStep::Delete(changed.clone()));
        case.table.call_begins(cidr(A));
        case.table.deleted(&changed);
        assert!(matches!(case.step(), RouteStep::Create(_)));
    }
    // The second route leads to another Node.
    let both = [to("a"), to("gone")];
    let case = Case::new(&both, &[a()]).confirmed("gone");
    assert_eq!(case.step(), RouteStep::Delete(to("gone")));
}

#[test]
fn a_blackhole_of_ours_is_deleted_at_once() {
    let blackhole = |destination: &str| {
        let raw = RawRoute {
            is_blackhole: true,
            ..raw_route(destination, "a")
        };
        raw.check().unwrap()
    };
    // AWS names no target then.
    let nameless = RawRoute {
        node_name: String::new(),
        ..blackhole(A).raw().clone()
    };
    for there in [blackhole(A), nameless.check().unwrap()] {
        let delete = RouteStep::Delete(there.clone());
        let there = from_ref(&there);
        assert_eq!(Case::new(there, &[a()]).step(), delete);
        assert_eq!(Case::new(there, &[]).step(), delete);
    }
    for foreign in ["10.243.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "10.244.0.0/15"] {
        let case = Case::new(&[blackhole(foreign)], &[]);
        assert_eq!(case.plan(foreign).step, RouteStep::Nothing);
    }
}

/// also one that begins where the cluster CIDR begins.
#[test]
fn routes_of_others_are_never_touched() {
    for foreign in [
        "10.243.1.0/24",
        "10.0.0.0/8",
        "10.244.0.0/15",
        "0.0.0.0/0",
        "fd00::/40",
    ] {
        let mut case = Case::new(&[route(foreign, "gone")], &[]).confirmed("gone");
        case.confirmed.push(Confirmation::AllNodes);
        assert_eq!(case.plan(foreign).step, RouteStep::Nothing, "{foreign}");
    }
    for ours in [
        "10.244.0.0/16",
        "10.244.255.0/24",
        "10.244.0.0/32",
        "fd00::/64",
    ] {
        let case = Case::new(&[route(ours, "gone")], &[]);
        assert_eq!(case.plan(ours).step, ask("gone"), "{ours}");
    }
}

///
#[test]
fn a_pod_cidr_outside_the_cluster_cidr_is_refused() {
    let outside = "10.1.0.0/24";
    let node = routed("a", 1, outside);
    let case = Case::new(&[], from_ref(&node));
    assert_eq!(
        case.refused(outside),
        [
            "Pod CIDR 10.1.0.0/24 of Node a is outside --cluster-cidr, so it gets no route; extend \
             --cluster-cidr, or delete the Node, and it gets another when it registers again"
        ]
    );
    assert_eq!(case.plan(outside).step, RouteStep::Nothing);
    // Upstream has made it.
    let case = Case::new(&[route(outside, "a")], &[node]);
    assert_eq!(case.plan(outside).step, RouteStep::Keep);
    assert!(case.refused(outside).is_empty());
}

#[test]
fn nodes_that_cannot_be_decided_about_wait() {
    let uninitialized = NodeView {
        taints: registered("a").taints,
        provider_id: "".into(),
        ..a()
    };
    let without_ip = NodeView {
        addresses: addresses("Hostname=a"),
        ..a()
    };
    // Another client has removed its taint.
    let without_id = NodeView {
        provider_id: "".into(),
        ..a()
    };
    for node in [&uninitialized, &without_ip, &without_id] {
        assert_eq!(Case::new(&[], from_ref(node)).step(), RouteStep::Nothing);
    }
    let by_id = RawRoute {
        provider_id: "cloud://a".into(),
        ..raw_route(A, "")
    };
    let by_id = [by_id.check().unwrap()];
    let mut case = Case::new(&by_id, &[uninitialized]);
    case.confirmed.push(Confirmation::AllNodes);
    assert_eq!(case.step(), RouteStep::Nothing);
}

/// Nothing tells where it leads: it stays, and the provider is asked.
#[test]
fn a_route_without_a_target_is_for_the_provider_to_tell() {
    let nameless = [to("")];
    let create = RouteStep::Create(WantedRoute::of(cidr(A), &a()));
    let mut case = Case::new(&nameless, &[a()]);
    case.confirmed.push(Confirmation::AllNodes);
    assert_eq!(case.step(), create);
    // Its answer counts as long as the list shows the same.
    case.table.call_begins(cidr(A));
    case.table.created(&WantedRoute::of(cidr(A), &a()), to(""));
    assert_eq!(case.step(), RouteStep::Keep);
    let start = case.table.list_begins();
    case.table.list_completed(start, nameless.clone());
    assert_eq!(case.step(), RouteStep::Keep);
    // It is another Node's, by an address of a family that this one does not report.
    let by_hop = RawRoute {
        next_hop_ip: "fd01::2".into(),
        ..raw_route(A, "")
    };
    let other = NodeView {
        addresses: addresses("InternalIP=fd01::2"),
        ..routed("b", 2, "10.244.2.0/24")
    };
    let by_hop = [by_hop.check().unwrap()];
    assert_eq!(Case::new(&by_hop, &[a()]).step(), create);
    assert_eq!(Case::new(&by_hop, &[a(), other]).step(), ask("b"));
}

#[test]
fn nodes_of_another_provider_get_no_route_and_lose_none() {
    let foreign = NodeView {
        provider_id: "other://a".into(),
        ..a()
    };
    assert_eq!(
        Case::new(&[], from_ref(&foreign)).step(),
        RouteStep::Nothing
    );
    let moved = RawRoute {
        provider_id: "other://before".into(),
        ..raw_route(A, "a")
    };
    for route in [to("a"), moved.check().unwrap()] {
        let case = Case::new(&[route], from_ref(&foreign)).confirmed("a");
        assert!(matches!(case.step(), RouteStep::Keep | RouteStep::Nothing));
    }
}

/// The switch is about writes to the Node. Its route is none.
#[test]
fn a_paused_node_has_its_route_as_any_node() {
    let paused = NodeView {
        labels: map(&[(LABEL_PAUSED, "true")]),
        ..a()
    };
    let create = RouteStep::Create(WantedRoute::of(cidr(A), &paused));
    assert_eq!(Case::new(&[], from_ref(&paused)).step(), create);
    let stale = Case::new(&[to("gone")], from_ref(&paused)).confirmed("gone");
    assert_eq!(stale.step(), RouteStep::Delete(to("gone")));
}
