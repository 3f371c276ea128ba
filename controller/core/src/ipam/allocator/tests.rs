use super::{Allocator, Exhausted};
use crate::{
    cidr::Cidr, error_class::ErrorClass, fixture::registered, ipam::pool::Pool, node::NodeView,
};

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

/// A Node with the UID `<name>-<uid>` and Pod CIDRs in words.
pub(super) fn node(name: &str, uid: u32, cidrs: &str) -> NodeView {
    NodeView {
        uid: format!("{name}-{uid}").into(),
        pod_cidrs: cidrs.split_whitespace().map(Into::into).collect(),
        ..registered(name)
    }
}

/// `10.244.0.0/22` in four, and with `ipv6` `fd00::/62` in four.
fn allocator(ipv6: bool) -> Allocator {
    let pools = [("10.244.0.0/22", 24), ("fd00::/62", 64)];
    let pools = pools.iter().take(1 + usize::from(ipv6));
    let pools = pools.map(|(range, len)| Pool::new(cidr(range), *len, &[]).unwrap());
    Allocator::from_pools(pools.collect())
}

fn allocate(allocator: &mut Allocator, node: &NodeView) -> Result<String, usize> {
    let allocated = allocator.allocate(node).unwrap();
    let words = |cidrs: Box<[Cidr]>| {
        cidrs
            .iter()
            .map(Cidr::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    allocated.map(words).map_err(|exhausted| exhausted.pool)
}

fn free(allocator: &Allocator) -> Vec<u64> {
    allocator.sizes().map(|(_, size)| size.free).collect()
}

/// The messages about a Node that is observed.
fn observe(allocator: &mut Allocator, node: &NodeView) -> Vec<String> {
    let problems = allocator.observe(node);
    problems.iter().map(ToString::to_string).collect()
}

/// I-8, I-12.
#[test]
fn a_node_gets_one_cidr_of_each_pool_and_keeps_it() {
    let mut allocator = allocator(true);
    let prefix = |range: &str| allocator.node_prefix(cidr(range));
    assert_eq!(
        (prefix("10.244.0.0/22"), prefix("fd00::/62")),
        (Some(24), Some(64))
    );
    assert_eq!(prefix("10.244.0.0/16"), None);
    let a = node("a", 1, "");
    assert_eq!(
        allocate(&mut allocator, &a).unwrap(),
        "10.244.0.0/24 fd00::/64"
    );
    // The result of the write is not known, and the view is still the old one.
    assert!(observe(&mut allocator, &a).is_empty());
    assert_eq!(
        allocate(&mut allocator, &a).unwrap(),
        "10.244.0.0/24 fd00::/64"
    );
    let b = allocate(&mut allocator, &node("b", 1, ""));
    assert_eq!(b.unwrap(), "10.244.1.0/24 fd00:0:0:1::/64");
    assert!(observe(&mut allocator, &node("a", 1, "10.244.0.0/24 fd00::/64")).is_empty());
    assert_eq!(free(&allocator), [2, 2]);
}

/// I-15, Q-16, I-17.
#[test]
fn cidrs_are_free_once_their_node_is_gone_or_has_others() {
    let mut allocator = allocator(false);
    for name in ["a", "b", "c"] {
        allocate(&mut allocator, &node(name, 1, "")).unwrap();
    }
    // Another client gave it another CIDR first.
    assert!(observe(&mut allocator, &node("a", 1, "10.244.3.0/24")).is_empty());
    assert_eq!(free(&allocator), [1]);
    // It vanished before the write.
    allocator.forget("b", "b-1");
    assert_eq!(free(&allocator), [2]);
    // A deletion of an earlier Node of the name comes late.
    assert!(observe(&mut allocator, &node("c", 2, "")).is_empty());
    assert_eq!(free(&allocator), [3]);
    allocate(&mut allocator, &node("c", 2, "")).unwrap();
    allocator.forget("c", "c-1");
    assert_eq!(free(&allocator), [2]);
    allocator.forget("c", "c-2");
    allocator.forget("c", "c-2");
    allocator.forget("a", "a-1");
    assert_eq!(free(&allocator), [4]);
}

///
#[test]
fn allocation_is_of_all_pools_or_of_none() {
    let mut allocator = allocator(true);
    observe(&mut allocator, &node("other", 1, "10.244.3.0/24 fd00::/62"));
    assert_eq!(free(&allocator), [3, 0]);
    for _ in 0..10 {
        assert_eq!(allocate(&mut allocator, &node("a", 1, "")), Err(1));
    }
    assert_eq!(free(&allocator), [3, 0]);
    allocator.forget("other", "other-1");
    let a = allocate(&mut allocator, &node("a", 1, ""));
    assert_eq!(a.unwrap(), "10.244.0.0/24 fd00::/64");
    let exhausted = Exhausted {
        pool: 1,
        range: cidr("fd00::/62"),
    };
    assert_eq!(
        exhausted.to_string(),
        "failed to allocate cidr from cluster cidr at idx:1: CIDR allocation failed; there are no \
         remaining CIDRs left to allocate in the accepted range fd00::/62: delete Nodes that are \
         not needed, or extend --cluster-cidr"
    );
}

/// Q-17, I-7.
#[test]
fn a_bad_pod_cidr_is_reported_once_and_harms_no_other_node() {
    let mut one = allocator(false);
    let bad = node("a", 1, "10.245.0.0/24 junk 10.244.2.0/24");
    assert_eq!(
        observe(&mut one, &bad),
        [
            "Node a has 3 Pod CIDRs, but --cluster-cidr has 1; Kubernetes lets no client change that: delete the Node, and \
             it gets 1 when it registers again",
            "cidr 10.245.0.0/24 is out the range of cluster cidr 10.244.0.0/22: Node a keeps it; \
             extend --cluster-cidr, or delete the Node, and it gets another when it registers again",
            "Pod CIDR \"junk\" of Node a is no CIDR; delete the Node, and it registers again",
        ]
    );
    assert!(observe(&mut one, &bad).is_empty());
    // In another place than that of its pool, but in use.
    assert_eq!(free(&one), [3]);
    // A CIDR that reaches beyond the pool leaves the pool to others.
    assert_eq!(observe(&mut one, &node("wide", 1, "10.0.0.0/8")).len(), 2);
    assert_eq!(free(&one), [3]);
    assert_eq!(
        allocate(&mut one, &node("b", 1, "")).unwrap(),
        "10.244.0.0/24"
    );
    one.forget("a", "a-1");
    one.forget("wide", "wide-1");
    assert_eq!(free(&one), [3]);

    let mut both = allocator(true);
    let swapped = node("a", 1, "fd00::/64 10.244.0.0/24");
    assert_eq!(observe(&mut both, &swapped).len(), 2);
    assert_eq!(free(&both), [3, 3]);
    // I-11: it keeps the one, and its Pods have no address of the other family.
    let single = node("b", 1, "10.244.1.0/24");
    assert_eq!(observe(&mut both, &single).len(), 1);
    assert_eq!(free(&both), [2, 3]);
}

#[test]
fn a_duplicate_of_other_writers_is_reported_and_stays_in_use() {
    let mut allocator = allocator(false);
    assert!(observe(&mut allocator, &node("a", 1, "10.244.0.0/24")).is_empty());
    let problems = allocator.observe(&node("b", 1, "10.244.0.0/24"));
    assert_eq!(problems.len(), 1);
    assert_eq!(
        problems[0].to_string(),
        "Pod CIDR 10.244.0.0/24 of Node b overlaps with 10.244.0.0/24 of Node a; delete one of the \
         two, and it gets another when it registers again"
    );
    assert_eq!(problems[0].class(), ErrorClass::NotReady);
    // Node CIDRs of other sizes.
    assert_eq!(
        observe(&mut allocator, &node("half", 1, "10.244.0.128/25")).len(),
        1
    );
    assert_eq!(
        observe(&mut allocator, &node("twice", 1, "10.244.0.0/23")).len(),
        1
    );
    // Two in one block without an address in common.
    assert!(observe(&mut allocator, &node("c", 1, "10.244.2.0/26")).is_empty());
    assert!(observe(&mut allocator, &node("d", 1, "10.244.2.64/26")).is_empty());
    assert_eq!(free(&allocator), [2]);
    for (gone, free_then) in [
        ("a", 2),
        ("c", 2),
        ("b", 2),
        // It has its range alone now.
        ("half", 1),
        ("twice", 3),
        ("d", 4),
    ] {
        allocator.forget(gone, &format!("{gone}-1"));
        assert_eq!(free(&allocator), [free_then], "{gone}");
    }
}

/// A kubelet that registers with the range of all takes none of it from the others.
#[test]
fn a_range_wider_than_a_nodes_leaves_to_others_what_they_have_and_the_rest() {
    let wide = || node("wide", 1, "10.244.0.0/22");
    for first in [true, false] {
        let mut allocator = allocator(false);
        let mut problems = Vec::new();
        if first {
            problems = observe(&mut allocator, &wide());
            // A mask that was shorter once: no other Node has a part of it.
            assert_eq!(free(&allocator), [0]);
        }
        assert!(observe(&mut allocator, &node("a", 1, "10.244.0.0/24")).is_empty());
        if !first {
            problems = observe(&mut allocator, &wide());
        }
        assert_eq!(
            problems,
            [
                "Pod CIDR 10.244.0.0/22 of Node wide is wider than a Node's /24: it is not reserved where another \
                 Node has a part of it; delete the Node, and it gets another when it registers again"
            ]
        );
        assert_eq!(free(&allocator), [3]);
        let b = node("b", 1, "");
        assert_eq!(allocate(&mut allocator, &b).unwrap(), "10.244.1.0/24");
        // Asked once more it is the same: a write with an unknown result may still arrive.
        assert_eq!(allocate(&mut allocator, &b).unwrap(), "10.244.1.0/24");
        assert!(observe(&mut allocator, &node("b", 1, "10.244.1.0/24")).is_empty());
        allocator.forget("a", "a-1");
        assert_eq!(free(&allocator), [3]);
        allocator.forget("b", "b-1");
        assert_eq!(free(&allocator), [0]);
        allocator.forget("wide", "wide-1");
        assert_eq!(free(&allocator), [4]);
    }
}

/// I-7: the list at the start is newer than the store.
#[test]
fn a_listed_node_is_awaited_until_the_store_shows_it_or_it_is_gone() {
    let mut allocator = allocator(false);
    let listed = ["a", "b", "c"].map(|name| node(name, 2, ""));
    let listed = listed.into_iter().zip(0..);
    for (node, block) in listed {
        let pod_cidrs = [format!("10.244.{block}.0/24").into()].into();
        let node = NodeView { pod_cidrs, ..node };
        assert!(allocator.observe_listed(&node).is_empty());
    }
    // The store shows an earlier Node, the same one before its write, and no Node.
    assert!(observe(&mut allocator, &node("a", 1, "10.244.3.0/24")).is_empty());
    assert!(observe(&mut allocator, &node("b", 2, "")).is_empty());
    let mut awaited: Vec<_> = allocator.all_awaited().map(|name| &**name).collect();
    awaited.sort_unstable();
    assert_eq!(awaited, ["a", "c"]);
    assert_eq!(allocator.awaited("a"), Some("a-2"));
    assert_eq!(free(&allocator), [1]);
    assert!(allocator.has_observed_cidrs(&node("b", 2, "")));
    assert!(!allocator.has_observed_cidrs(&node("a", 1, "")));
    // The deletions come one after the other.
    allocator.forget("a", "a-1");
    assert_eq!(allocator.awaited("a"), Some("a-2"));
    assert_eq!(free(&allocator), [1]);
    allocator.forget("a", "a-2");
    allocator.forget("c", "c-2");
    assert_eq!(allocator.all_awaited().count(), 0);
    assert_eq!(free(&allocator), [3]);
    assert!(observe(&mut allocator, &node("c", 3, "10.244.0.0/24")).is_empty());
    assert_eq!(free(&allocator), [2]);
}

/// Another Node was observed with it. A write of it may have been carried out all the same, with its answer lost.
#[test]
fn a_cidr_that_was_exchanged_stays_reserved_too() {
    let mut allocator = allocator(false);
    let a = node("a", 1, "");
    assert_eq!(allocate(&mut allocator, &a).unwrap(), "10.244.0.0/24");
    assert!(observe(&mut allocator, &node("b", 1, "10.244.0.0/24")).is_empty());
    assert_eq!(allocate(&mut allocator, &a).unwrap(), "10.244.1.0/24");
    assert_eq!(allocate(&mut allocator, &a).unwrap(), "10.244.1.0/24");
    allocator.forget("b", "b-1");
    assert_eq!(free(&allocator), [2]);
    assert!(observe(&mut allocator, &node("a", 1, "10.244.0.0/24")).is_empty());
    assert_eq!(free(&allocator), [3]);
}

#[test]
fn the_provider_may_give_a_cidr_to_one_node_alone() {
    let mut allocator = Allocator::from_provider();
    let a = node("a", 1, "");
    assert!(allocator.allocate(&a).is_none());
    assert_eq!(allocator.sizes().count(), 0);
    let mut claim = |node: &NodeView, given: &[&str]| {
        let claimed = allocator.claim(node, given);
        claimed
            .map(|cidrs| cidrs.to_vec())
            .map_err(|problem| problem.to_string())
    };
    assert_eq!(claim(&a, &[]), Ok(Vec::new()));
    let both = [cidr("10.1.0.0/24"), cidr("fd00::/64")];
    assert_eq!(claim(&a, &["10.1.0.9/24", "FD00::/64"]), Ok(both.to_vec()));
    assert_eq!(claim(&a, &["10.1.0.0/24", "fd00::/64"]), Ok(both.to_vec()));
    // Before it is written.
    assert_eq!(
        claim(&node("b", 1, ""), &["10.1.0.0/25"]).unwrap_err(),
        "Pod CIDR 10.1.0.0/25 of Node b overlaps with 10.1.0.0/24 of Node a; delete one of the \
         two, and it gets another when it registers again"
    );
    // The cloud has changed its mind.
    assert_eq!(claim(&a, &["10.2.0.0/24"]), Ok(vec![cidr("10.2.0.0/24")]));
    assert_eq!(claim(&node("b", 1, ""), &["10.1.0.0/25"]).unwrap().len(), 1);
    for (given, text) in [
        (&["10.3.0.0/24", "junk"][..], "\"junk\" is no CIDR"),
        (
            &["10.3.0.0/24", "10.4.0.0/24"],
            "10.3.0.0/24 and 10.4.0.0/24 are both IPv4",
        ),
        (
            &["::/64", "10.4.0.0/24", "1::/64"],
            "3 CIDRs are more than one for each IP family",
        ),
    ] {
        let expected = format!("the provider's pod_cidrs for Node c: {text}");
        assert_eq!(claim(&node("c", 1, ""), given), Err(expected));
    }
    // A Node that has them is known as well.
    assert!(allocator.observe(&node("d", 1, "10.5.0.0/24")).is_empty());
    assert!(
        allocator
            .claim(&node("c", 1, ""), &["10.5.0.0/24"])
            .is_err()
    );
}
