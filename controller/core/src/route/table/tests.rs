use std::sync::Arc;

use super::{ListStart, RouteTable};
use crate::{
    fixture::{cidr, raw_route, route, routed},
    node::NodeView,
    route::{ObservedRoute, RawRoute, RouteNodes, WantedRoute, fit::Fit},
};

const A: &str = "10.244.1.0/24";
const B: &str = "10.244.2.0/24";

fn list(table: &mut RouteTable, start: ListStart, routes: &[&ObservedRoute]) -> Vec<String> {
    let changed = table.list_completed(start, routes.iter().map(|route| (*route).clone()));
    changed.iter().map(ToString::to_string).collect()
}

fn targets(table: &RouteTable, destination: &str) -> Vec<String> {
    let routes = table.at(cidr(destination)).iter();
    routes.map(|route| route.raw().node_name.clone()).collect()
}

#[test]
fn a_complete_list_is_the_table() {
    let mut table = RouteTable::default();
    assert!(table.needs_list(cidr(A)));
    let start = table.list_begins();
    let (a, b) = (route(A, "a"), route(B, "b"));
    assert_eq!(list(&mut table, start, &[&a, &b, &a]), [A, B]);
    assert_eq!(targets(&table, A), ["a"]);
    assert!(!table.needs_list(cidr(A)) && !table.needs_list(cidr("10.244.9.0/24")));
    let start = table.list_begins();
    assert!(list(&mut table, start, &[&b, &a]).is_empty());
    let other = route(A, "other");
    assert_eq!(list(&mut table, start, &[&a, &other, &b]), [A]);
    assert_eq!(targets(&table, A), ["a", "other"]);
    assert_eq!(list(&mut table, start, &[&b]), [A]);
    assert_eq!(table.iter().count(), 1);
}

#[test]
fn calls_that_were_answered_change_the_table() {
    let mut table = RouteTable::default();
    let start = table.list_begins();
    let (old, new) = (route(A, "old"), route(A, "new"));
    list(&mut table, start, &[&old]);
    table.call_begins(cidr(A));
    table.deleted(&old);
    assert!(targets(&table, A).is_empty());
    table.call_begins(cidr(A));
    table.failed(cidr(A));
    assert!(targets(&table, A).is_empty());
    // It is in flight no more.
    let start = table.list_begins();
    assert_eq!(list(&mut table, start, &[&old]), [A]);
    table.call_begins(cidr(A));
    table.deleted(&old);
    table.call_begins(cidr(A));
    let desired = WantedRoute::of(cidr(A), &routed("new", 1, A));
    table.created(&desired, new.clone());
    table.created(&desired, new);
    assert_eq!(targets(&table, A), ["new"]);
    // The deletion of another route with the destination.
    table.deleted(&old);
    assert_eq!(targets(&table, A), ["new"]);
}

/// A list shows each route as it was at some time between its begin and its end.
#[test]
fn a_list_from_before_a_call_does_not_undo_it() {
    let mut table = RouteTable::default();
    let first = table.list_begins();
    let (a, b) = (route(A, "a"), route(B, "b"));
    list(&mut table, first, &[&a]);
    let start = table.list_begins();
    table.call_begins(cidr(A));
    table.deleted(&a);
    table.call_begins(cidr(B));
    assert!(list(&mut table, start, &[&a]).is_empty());
    assert!(targets(&table, A).is_empty());
    // In flight when the next list begins and when it ends.
    let start = table.list_begins();
    assert!(list(&mut table, start, &[&b]).is_empty());
    table.created(&WantedRoute::of(cidr(B), &routed("b", 2, B)), b.clone());
    assert_eq!(targets(&table, B), ["b"]);
    // In flight when it begins.
    table.call_begins(cidr(B));
    let start = table.list_begins();
    table.deleted(&b);
    assert!(list(&mut table, start, &[&b]).is_empty());
    assert!(targets(&table, B).is_empty());
    // Another client has made them since.
    let start = table.list_begins();
    assert_eq!(list(&mut table, start, &[&a, &b]), [A, B]);
}

#[test]
fn a_list_that_began_before_the_table_was_outdated_does_not_count() {
    let mut table = RouteTable::default();
    let start = table.list_begins();
    let a = route(A, "a");
    list(&mut table, start, &[&a]);
    assert!(!table.is_outdated());
    let start = table.list_begins();
    table.outdate();
    assert!(table.is_outdated() && table.needs_list(cidr(A)));
    list(&mut table, start, &[&a]);
    assert!(table.is_outdated() && table.needs_list(cidr(B)));
    let start = table.list_begins();
    list(&mut table, start, &[]);
    assert!(!table.is_outdated() && !table.needs_list(cidr(A)));
    assert!(targets(&table, A).is_empty());
}

#[test]
fn an_unknown_result_is_known_after_a_list_that_begins_later() {
    let mut table = RouteTable::default();
    let start = table.list_begins();
    let a = route(A, "a");
    list(&mut table, start, &[]);
    let start = table.list_begins();
    table.call_begins(cidr(A));
    assert!(!table.needs_list(cidr(A)));
    table.result_unknown(cidr(A));
    list(&mut table, start, &[&a]);
    assert!(table.needs_list(cidr(A)) && !table.needs_list(cidr(B)));
    assert!(targets(&table, A).is_empty());
    let start = table.list_begins();
    // Its key is tried again anyway, after its back-off.
    assert!(list(&mut table, start, &[&a]).is_empty());
    assert!(!table.needs_list(cidr(A)));
    assert_eq!(targets(&table, A), ["a"]);
}

/// The provider shows the route to Node `a` under another ID: in its answer, or only in the next list.
#[test]
fn a_route_stays_that_of_the_node_it_was_made_for() {
    let a = routed("a", 1, A);
    let desired = WantedRoute::of(cidr(A), &a);
    let shown = RawRoute {
        provider_id: "cloud:///a".into(),
        ..raw_route(A, "")
    };
    let shown = shown.check().unwrap();
    assert_eq!(shown.fit(&a), Fit::Other);
    for answer in [shown.clone(), desired.as_made()] {
        let mut table = RouteTable::default();
        let start = table.list_begins();
        list(&mut table, start, &[]);
        table.call_begins(cidr(A));
        table.created(&desired, answer);
        for _ in 0..2 {
            let start = table.list_begins();
            list(&mut table, start, &[&shown]);
            assert_eq!(table.at(cidr(A)).len(), 1);
            assert_eq!(table.at(cidr(A))[0].fit(&a), Fit::Right);
        }
        // Another client leads it elsewhere.
        let start = table.list_begins();
        list(&mut table, start, &[&route(A, "b")]);
        assert_eq!(table.at(cidr(A))[0].fit(&a), Fit::Other);
    }
}

/// The cloud has such IDs, and the Node gets its own after its route.
#[test]
fn a_route_is_that_of_the_first_machine_with_an_id() {
    let mut nodes = RouteNodes::default();
    let mut keep = |table: &mut RouteTable, id: &str| {
        let node = NodeView {
            provider_id: id.into(),
            ..routed("a", 1, A)
        };
        nodes.observe(&Arc::new(node));
        table.keep(cidr(A), &nodes);
        let made_for = table.at(cidr(A))[0].made_for.clone().unwrap();
        made_for.provider_id.clone()
    };
    let mut table = RouteTable::default();
    let start = table.list_begins();
    list(&mut table, start, &[&route(A, "a")]);
    assert_eq!(&*keep(&mut table, ""), "");
    assert_eq!(&*keep(&mut table, "cloud://a"), "cloud://a");
    assert_eq!(&*keep(&mut table, "cloud://b"), "cloud://a");
}
