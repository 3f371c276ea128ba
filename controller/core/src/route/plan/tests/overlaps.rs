//! Nodes whose Pod CIDRs have addresses in common, as a kubelet may choose them when it registers.

use std::time::Duration;

use jiff::Timestamp;

use super::*;

/// `node` made so many seconds after the others.
fn later(seconds: u64, node: NodeView) -> NodeView {
    NodeView {
        created: Timestamp::UNIX_EPOCH + Duration::from_secs(seconds),
        ..node
    }
}

fn create(node: &NodeView) -> RouteStep {
    RouteStep::Create(WantedRoute::of(cidr(&node.pod_cidrs[0]), node))
}

#[test]
fn of_two_nodes_with_one_cidr_the_first_has_the_route() {
    // The younger one has the name that comes first.
    let (a, b) = (later(1, a()), routed("b", 2, A));
    let both = [a.clone(), b.clone()];
    let case = Case::new(&[], &both);
    assert_eq!(case.step(), create(&b));
    assert_eq!(
        case.refused(A),
        [
            "Pod CIDR 10.244.1.0/24 of Node a overlaps with 10.244.1.0/24 of Node b, which was first, so it gets no \
             route; delete Node a, and it gets another when it registers again"
        ]
    );
    // The one that has it keeps it.
    for there in ["a", "b"] {
        let case = Case::new(&[to(there)], &both);
        assert_eq!(case.step(), RouteStep::Keep);
        assert_eq!(case.refused(A).len(), 1);
    }
    // Both have one.
    let case = Case::new(&[to("a"), to("b")], &both);
    assert_eq!(case.step(), ask("a"));
    assert_eq!(case.confirmed("a").step(), RouteStep::Delete(to("a")));
    assert!(Case::new(&[], &[a]).refused(A).is_empty());
}

/// A more specific route would take half of the other Node's Pods, and a wider one those that it has no route for.
#[test]
fn a_part_of_another_nodes_range_and_a_range_around_it_get_no_route() {
    for (theirs, text) in [
        (
            "10.244.1.0/25",
            "10.244.1.0/25 of Node b overlaps with 10.244.1.0/24 of Node a",
        ),
        (
            "10.244.1.7/32",
            "10.244.1.7/32 of Node b overlaps with 10.244.1.0/24 of Node a",
        ),
        (
            "10.244.0.0/23",
            "10.244.0.0/23 of Node b overlaps with 10.244.1.0/24 of Node a",
        ),
        (
            "10.244.0.0/16",
            "10.244.0.0/16 of Node b is wider than a Node's /17",
        ),
    ] {
        let thief = later(1, routed("b", 2, theirs));
        for routes in [&[][..], &[to("a")]] {
            let case = Case::new(routes, &[a(), thief.clone()]);
            assert_eq!(case.plan(theirs).step, RouteStep::Nothing, "{theirs}");
            let refused = case.refused(theirs);
            assert!(
                refused.len() == 1 && refused[0].contains(text),
                "{refused:?}"
            );
            let ours = if routes.is_empty() {
                create(&a())
            } else {
                RouteStep::Keep
            };
            assert_eq!(case.step(), ours, "{theirs}");
            assert!(case.refused(A).is_empty());
        }
        // A route that was created before all this was checked.
        let case = Case::new(&[to("a"), route(theirs, "b")], &[a(), thief.clone()]);
        assert_eq!(case.step(), RouteStep::Keep);
        let is_wide = theirs == "10.244.0.0/16";
        let step = if is_wide { RouteStep::Keep } else { ask("b") };
        assert_eq!(case.plan(theirs).step, step, "{theirs}");
        // An older Node, which had none until now.
        let old = NodeView {
            created: Timestamp::UNIX_EPOCH - Duration::from_secs(1),
            ..thief
        };
        let case = Case::new(&[to("a")], &[a(), old]);
        assert_eq!(case.plan(theirs).step, RouteStep::Nothing, "{theirs}");
        assert_eq!(case.step(), RouteStep::Keep);
    }
}

/// A mask that is known.
#[test]
fn a_range_wider_than_a_nodes_gets_no_route_and_takes_none() {
    let wide = "10.244.0.0/23";
    let old = NodeView {
        created: Timestamp::UNIX_EPOCH - Duration::from_secs(1),
        ..routed("b", 2, wide)
    };
    let mut case = Case::new(&[], &[a(), old.clone()]);
    case.ranges = ranges(Some(24), None);
    assert_eq!(case.step(), create(&a()));
    assert_eq!(case.plan(wide).step, RouteStep::Nothing);
    assert_eq!(
        case.refused(wide),
        [
            "Pod CIDR 10.244.0.0/23 of Node b is wider than a Node's /24, so it gets no route; delete Node b, and it \
             gets another when it registers again"
        ]
    );
    // The mask was another one when it was made.
    let mut case = Case::new(&[route(wide, "b")], &[a(), old]);
    case.ranges = ranges(Some(24), None);
    assert_eq!(case.plan(wide).step, RouteStep::Keep);
    assert_eq!(case.step(), create(&a()));
    // The range of all Pods is that of a Node which is alone.
    let alone = routed("a", 1, "10.244.0.0/16");
    let case = Case::new(&[], std::slice::from_ref(&alone));
    assert_eq!(case.plan("10.244.0.0/16").step, create(&alone));
}

/// Without a mask: those inside that have a route keep it, and so there is none around them.
#[test]
fn a_range_around_those_of_others_takes_no_route_that_is_there() {
    let wide = "10.244.0.0/22";
    let old = NodeView {
        created: Timestamp::UNIX_EPOCH - Duration::from_secs(1),
        ..routed("c", 3, wide)
    };
    let others = [a(), routed("b", 2, "10.244.2.0/24"), old];
    let case = Case::new(&[to("a")], &others);
    assert_eq!(case.plan(wide).step, RouteStep::Nothing);
    assert_eq!(case.refused(wide).len(), 1);
    assert_eq!(case.step(), RouteStep::Keep);
    assert_eq!(case.plan("10.244.2.0/24").step, create(&others[1]));
}

/// A Node that gets no route itself keeps no other Node from its own.
#[test]
fn a_node_without_a_route_keeps_no_other_from_its_own() {
    let old = |node: NodeView| NodeView {
        created: Timestamp::UNIX_EPOCH - Duration::from_secs(1),
        ..node
    };
    let theirs = routed("b", 2, A);
    let uninitialized = NodeView {
        taints: registered("b").taints,
        ..theirs.clone()
    };
    let foreign = NodeView {
        provider_id: "other://b".into(),
        ..theirs.clone()
    };
    let without_ip = NodeView {
        addresses: addresses("Hostname=b"),
        ..theirs.clone()
    };
    for other in [uninitialized, foreign, without_ip] {
        let case = Case::new(&[], &[a(), old(other)]);
        assert_eq!(case.step(), create(&a()));
    }
    // Refused for the sake of a third one.
    let second = later(1, routed("b", 2, "10.244.0.0/23"));
    let third = later(2, routed("c", 3, "10.244.0.0/24"));
    let mut case = Case::new(&[], &[a(), second.clone(), third.clone()]);
    assert_eq!(case.plan("10.244.0.0/24").step, create(&third));
    // It is the first once that one is gone.
    case.nodes.forget("a", "uid-a");
    assert_eq!(case.plan("10.244.0.0/23").step, create(&second));
    assert_eq!(case.plan("10.244.0.0/24").step, RouteStep::Nothing);
}

/// A kubelet registers as many Nodes as its token allows.
#[test]
fn nodes_nested_in_one_another_are_decided_at_once() {
    let nested = |length: u8| {
        let node = routed(&format!("n{length}"), length, &format!("fd00::/{length}"));
        later(length.into(), node)
    };
    let nodes: Vec<_> = (49..113).map(nested).collect();
    let case = Case::new(&[], &nodes);
    assert_eq!(case.plan("fd00::/49").step, create(&nodes[0]));
    for length in 50..113 {
        let destination = format!("fd00::/{length}");
        assert_eq!(case.plan(&destination).step, RouteStep::Nothing);
        let refused = case.refused(&destination);
        let first = "overlaps with fd00::/49 of Node n49, which was first";
        assert!(refused[0].contains(first), "{refused:?}");
    }
}
