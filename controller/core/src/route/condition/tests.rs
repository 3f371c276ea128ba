use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{ConditionChange, Status, condition};
use crate::{
    cidr::Cidr,
    condition::Condition,
    fixture::{addresses, cidr, map, ranges, raw_route, registered, route, routed},
    node::{
        LABEL_PAUSED, NETWORK_UNAVAILABLE, NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{ObservedRoute, RawRoute, RouteFacts, RouteNodes, RouteTable},
};

const A: &str = "10.244.1.0/24";
const V6: &str = "fd00::/64";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Status, reason, message and transition of the write for `node`, among `others`.
fn write(
    node: &NodeView,
    others: &[NodeView],
    table: &RouteTable,
    failed: &[&str],
) -> Option<(Status, String, i64)> {
    written(node, others, table, failed, None)
}

/// The same where the last list has failed.
fn written(
    node: &NodeView,
    others: &[NodeView],
    table: &RouteTable,
    failed: &[&str],
    list_failure: Option<&str>,
) -> Option<(Status, String, i64)> {
    let mut nodes = RouteNodes::default();
    for node in others.iter().chain([node]) {
        nodes.observe(&Arc::new(node.clone()));
    }
    let prefixes = Prefixes::new("cloud", [""; 0]).unwrap();
    let facts = RouteFacts {
        list_failure,
        keeps_lost: false,
        table,
        nodes: &nodes,
        is_synced: true,
        confirmed: &[],
        scope: NodeScope {
            prefixes: &prefixes,
            selector: None,
            foreign_prefix_seen: false,
        },
        without_provider_id: false,
        ranges: &ranges(None, None),
    };
    let why = |text: &&str| (cidr(text), "no room".to_owned());
    let failed: BTreeMap<Cidr, String> = failed.iter().map(why).collect();
    let write = condition(at(100), node, &failed, &facts)?;
    let applied = write.applied_to(node, "9");
    assert_eq!(
        (&applied.name, &*applied.resource_version),
        (&node.name, "9")
    );
    assert_eq!(condition(at(101), &applied, &failed, &facts), None);
    assert_eq!(write.heartbeat, at(100));
    let [ConditionChange::Set(set)] = &write.conditions[..] else {
        panic!("{write:?}");
    };
    assert_eq!(&*set.kind, NETWORK_UNAVAILABLE);
    Some((
        Status::parse(&set.status).unwrap(),
        format!("{}: {}", set.reason, set.message),
        set.last_transition_time.unwrap().as_second(),
    ))
}

fn table(routes: &[ObservedRoute]) -> RouteTable {
    let mut table = RouteTable::default();
    let start = table.list_begins();
    table.list_completed(start, routes.iter().cloned());
    table
}

fn with(node: NodeView, status: Option<Status>, reason: &str, since: Option<i64>) -> NodeView {
    NodeView {
        conditions: [Condition {
            kind: NETWORK_UNAVAILABLE.into(),
            status: status.map_or("Perhaps", Status::as_str).into(),
            reason: reason.into(),
            message: "RouteController created a route".into(),
            last_transition_time: since.map(at),
        }]
        .into(),
        ..node
    }
}

fn created(since: i64) -> (Status, String, i64) {
    let text = "RouteCreated: RouteController created a route";
    (Status::False, text.to_owned(), since)
}

fn not_created(rest: &str) -> (Status, String, i64) {
    let text = format!("NoRouteCreated: RouteController failed to create a route{rest}");
    (Status::True, text, 100)
}

///
#[test]
fn the_routes_that_are_there_decide() {
    let node = routed("a", 1, "10.244.1.0/24 FD00::/64");
    let both = [route(A, "a"), route(V6, "a")];
    let write =
        |routes: &[ObservedRoute], failed: &[&str]| write(&node, &[], &table(routes), failed);
    assert_eq!(write(&both, &[]), Some(created(100)));
    // A change that failed, while the old route is there.
    assert_eq!(write(&both, &[A]), Some(created(100)));
    assert_eq!(write(&both[..1], &[V6]), Some(not_created(": no room")));
    // Not tried yet.
    assert_eq!(write(&both[..1], &[]), None);
    assert_eq!(write(&[], &[]), None);
    let changed = |raw: RawRoute| [raw.check().unwrap(), route(V6, "a")];
    let outdated = RawRoute {
        compares_addresses: true,
        node_addresses: addresses("InternalIP=10.9.9.9").into(),
        ..raw_route(A, "a")
    };
    assert_eq!(write(&changed(outdated), &[A]), Some(created(100)));
    for broken in [
        RawRoute {
            is_blackhole: true,
            ..raw_route(A, "a")
        },
        RawRoute {
            provider_id: "cloud://b".into(),
            ..raw_route(A, "")
        },
        raw_route(A, "b"),
    ] {
        let routes = changed(broken);
        assert_eq!(write(&routes, &[]), None);
        assert_eq!(write(&routes, &[A]), Some(not_created(": no room")));
    }
}

#[test]
fn nothing_is_written_before_the_table_is_known() {
    let node = routed("a", 1, A);
    assert_eq!(write(&node, &[], &RouteTable::default(), &[]), None);
    let mut table = table(&[route(A, "a")]);
    table.call_begins(cidr(A));
    table.result_unknown(cidr(A));
    assert_eq!(write(&node, &[], &table, &[]), None);
}

#[test]
fn a_node_that_waits_for_a_list_that_fails_says_why() {
    let node = routed("a", 1, A);
    let unlisted = RouteTable::default();
    let write = |node: &NodeView| written(node, &[], &unlisted, &[], Some("forbidden"));
    let why = ": the routes cannot be listed: forbidden";
    assert_eq!(write(&node), Some(not_created(why)));
    // The leader before may have made its route.
    let settled = with(node, Some(Status::False), "RouteCreated", Some(7));
    assert_eq!(write(&settled), None);
}

///
#[test]
fn a_condition_is_written_when_it_differs_and_keeps_its_time() {
    let write = |status, reason, since| {
        let node = with(routed("a", 1, A), status, reason, since);
        write(&node, &[], &table(&[route(A, "a")]), &[])
    };
    assert_eq!(write(Some(Status::False), "RouteCreated", Some(7)), None);
    assert_eq!(
        write(Some(Status::False), "CalicoIsUp", Some(7)),
        Some(created(7))
    );
    assert_eq!(
        write(Some(Status::False), "CalicoIsUp", None),
        Some(created(100))
    );
    assert_eq!(
        write(Some(Status::True), "RouteCreated", Some(7)),
        Some(created(100))
    );
    assert_eq!(write(None, "RouteCreated", Some(7)), Some(created(100)));
}

/// The cause is another one by now.
#[test]
fn a_condition_with_another_message_is_written() {
    let node = routed("a", 1, A);
    let node = with(node, Some(Status::True), "NoRouteCreated", Some(7));
    let (status, text, _) = not_created(": no room");
    assert_eq!(
        write(&node, &[], &table(&[]), &[A]),
        Some((status, text, 7))
    );
}

///
#[test]
fn a_node_without_pod_cidrs_gets_it_only_if_a_route_leads_there() {
    let node = routed("a", 1, "");
    assert_eq!(write(&node, &[], &table(&[route(A, "b")]), &[]), None);
    assert_eq!(
        write(&node, &[], &table(&[route(A, "a")]), &[]),
        Some(not_created(""))
    );
}

///
#[test]
fn a_route_that_will_not_be_made_is_said_why() {
    let outside = "10.1.0.0/24";
    let node = routed("a", 1, outside);
    assert_eq!(
        write(&node, &[], &table(&[]), &[]),
        Some(not_created(": 10.1.0.0/24 is outside --cluster-cidr"))
    );
    assert_eq!(
        write(&node, &[], &table(&[route(outside, "a")]), &[]),
        Some(created(100))
    );
    let others = [routed("b", 2, A)];
    assert_eq!(
        write(&routed("a", 1, A), &others, &table(&[route(A, "b")]), &[]),
        Some(not_created(
            ": 10.244.1.0/24 overlaps with 10.244.1.0/24 of Node b, which was first"
        ))
    );
    // This CIDR is as wide as the cluster CIDR.
    assert_eq!(
        write(&routed("a", 1, "10.244.0.0/16"), &others, &table(&[]), &[]),
        Some(not_created(": 10.244.0.0/16 is wider than a Node's /17"))
    );
}

/// The cloud has named none yet, or no longer does.
#[test]
fn a_node_without_an_ip_address_says_that_it_gets_no_route() {
    let node = NodeView {
        addresses: addresses("Hostname=a"),
        ..routed("a", 1, A)
    };
    let why = ": the Node has no IP address";
    assert_eq!(write(&node, &[], &table(&[]), &[]), Some(not_created(why)));
    // Its kubelet has named some, and the cloud has not been asked yet.
    let waits = NodeView {
        addresses: [].into(),
        reported: Some(addresses("Hostname=a")),
        ..node
    };
    assert_eq!(write(&waits, &[], &table(&[]), &[]), None);
}

#[test]
fn nodes_of_others_and_those_not_to_be_written_are_left_alone() {
    let node = || routed("a", 1, A);
    for node in [
        NodeView {
            provider_id: "other://a".into(),
            ..node()
        },
        NodeView {
            taints: registered("a").taints,
            ..node()
        },
        NodeView {
            deleted: Some(at(1)),
            ..node()
        },
        NodeView {
            labels: map(&[(LABEL_PAUSED, "true")]),
            ..node()
        },
    ] {
        assert_eq!(write(&node, &[], &table(&[route(A, "a")]), &[]), None);
    }
}
