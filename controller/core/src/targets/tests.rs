use std::sync::Arc;

use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};

use super::{
    EmptyTargets, LABEL_EXCLUDE, TargetChange, TargetLabels, TargetRules, Targets,
    change as change_by, is_same_to_provider, is_target, names,
};
use crate::{
    fixture::{addresses, any_node, map, registered, taints},
    node::{NodeView, Ready, Taint},
};

type Edit = fn(&mut NodeView);

fn change(old: Option<&NodeView>, new: Option<&NodeView>) -> TargetChange {
    change_by(old, new, &TargetLabels::default())
}

/// S-50: only what Go reads as false lets a node in.
#[test]
fn the_label_excludes_unless_it_is_false() {
    let not_false = ["true", "", "1", "fALSE", "no"].map(|value| (value, false));
    let is_false = ["false", "False", "FALSE", "f", "F", "0"].map(|value| (value, true));
    for (value, expected) in not_false.into_iter().chain(is_false) {
        let node = NodeView {
            labels: map(&[(LABEL_EXCLUDE, value)]),
            ..registered("n")
        };
        assert_eq!(is_target(&node), expected, "{value:?}");
    }
}

/// Its kubelet could make it so large that no message with it could be sent.
#[test]
fn a_node_that_is_too_large_is_no_target() {
    let with_addresses = |count| NodeView {
        addresses: addresses(&"InternalIP=10.0.0.1 ".repeat(count)),
        ..registered("n")
    };
    let with_taints = |count| NodeView {
        taints: vec![Taint::new("key", "value", "NoSchedule"); count].into(),
        ..registered("n")
    };
    let with_id = |length| NodeView {
        provider_id: "x".repeat(length).into(),
        ..registered("n")
    };
    for (node, expected) in [
        (with_addresses(64), true),
        (with_addresses(1_000), false),
        (with_taints(500), true),
        (with_taints(1_000), false),
        (with_id(1_024), true),
        (with_id(33 << 10), false),
    ] {
        assert_eq!(is_target(&node), expected);
    }
    // Nor is it kept where there would be none.
    let large = Arc::new(with_taints(1_000));
    let last = Targets::of(vec![Arc::clone(&large)], &[]);
    let (kept, _) = EmptyTargets::default().targets(Timestamp::UNIX_EPOCH, vec![large], &last);
    assert!(kept.is_empty());
}

/// S-50, S-51.
#[test]
fn a_node_about_to_go_is_no_target() {
    let node = registered("n");
    let deleted = NodeView {
        deleted: Some(Timestamp::UNIX_EPOCH),
        ..node.clone()
    };
    assert!(is_target(&node) && !is_target(&deleted));
    for effect in ["NoSchedule", "NoExecute", ""] {
        let tainted = NodeView {
            taints: taints(&format!("ToBeDeletedByClusterAutoscaler:{effect}")),
            ..node.clone()
        };
        assert!(!is_target(&tainted));
    }
    let unready = NodeView {
        ready: Ready::False,
        unschedulable: true,
        labels: map(&[("node-role.kubernetes.io/control-plane", "")]),
        taints: taints("cloud:NoSchedule node.kubernetes.io/unreachable:NoExecute"),
        ..node
    };
    assert!(unready.provider_id.is_empty() && unready.is_uninitialized());
    assert!(is_target(&unready));
}

#[test]
fn changes_of_the_targets() {
    let node = registered("n");
    let with = |edit: fn(&mut NodeView)| {
        let mut node = node.clone();
        edit(&mut node);
        node
    };
    let excluded = with(|n| n.labels = map(&[(LABEL_EXCLUDE, "true")]));
    let step = |old: Option<&NodeView>, new| change(old, Some(new));
    assert_eq!(step(None, &node), TargetChange::Added);
    assert_eq!(step(None, &excluded), TargetChange::None);
    assert_eq!(change(Some(&node), None), TargetChange::Removed);
    assert_eq!(step(Some(&node), &excluded), TargetChange::Removed);
    assert_eq!(step(Some(&excluded), &node), TargetChange::Added);
    // S-56.
    let going = with(|n| n.deleted = Some(Timestamp::UNIX_EPOCH));
    assert_eq!(change(Some(&going), None), TargetChange::None);
    // It may have been kept.
    assert_eq!(change(Some(&excluded), None), TargetChange::Removed);
    assert_eq!(step(Some(&excluded), &going), TargetChange::Removed);
    assert_eq!(change(None, None), TargetChange::None);
    let edits: [(Edit, TargetChange); 8] = [
        (|n| n.provider_id = "mock://1".into(), TargetChange::Added),
        (
            |n| n.addresses = addresses("InternalIP=10.0.0.6"),
            TargetChange::Added,
        ),
        (
            |n| n.pod_cidrs = ["10.1.0.0/24".into()].into(),
            TargetChange::Added,
        ),
        (|n| n.ready = Ready::True, TargetChange::None),
        (|n| n.unschedulable = true, TargetChange::None),
        (|n| n.taints = [].into(), TargetChange::None),
        (|n| n.labels = map(&[("app", "x")]), TargetChange::None),
        (|n| n.resource_version = "8".into(), TargetChange::None),
    ];
    for (at, (edit, expected)) in edits.into_iter().enumerate() {
        let edited = with(edit);
        assert_eq!(change(Some(&node), Some(&edited)), expected, "{at}");
        // All but a heartbeat is shown to providers.
        assert_eq!(is_same_to_provider(&node, &edited), at == 7, "{at}");
    }
}

#[test]
fn the_order_of_addresses_is_no_news_for_targets() {
    let with = |words: &str| NodeView {
        addresses: addresses(words),
        ..registered("n")
    };
    let (node, rotated) = (
        with("InternalIP=10.0.0.5 InternalIP=10.0.0.6 ExternalIP=192.0.2.5"),
        with("InternalIP=10.0.0.6 ExternalIP=192.0.2.5 InternalIP=10.0.0.5"),
    );
    assert_eq!(change(Some(&node), Some(&rotated)), TargetChange::None);
    assert!(is_same_to_provider(&node, &rotated));
    let revision = |node: &NodeView| Targets::among([node.clone().into()]).revision().clone();
    assert_eq!(revision(&node), revision(&rotated));
    let fewer = with("InternalIP=10.0.0.6 ExternalIP=192.0.2.5");
    assert_eq!(change(Some(&node), Some(&fewer)), TargetChange::Added);
    assert_ne!(revision(&node), revision(&fewer));
}

#[test]
fn only_labels_that_are_looked_at_change_a_target() {
    let node = registered("n");
    let labelled = |value: &str| NodeView {
        labels: map(&[("rack", value), ("app", value)]),
        ..node.clone()
    };
    let declared = TargetLabels {
        rules: TargetRules {
            label_keys: ["rack".into()].into(),
        },
        has_selectors: false,
    };
    let step = |old: &NodeView, new: &NodeView| change_by(Some(old), Some(new), &declared);
    assert_eq!(step(&node, &labelled("1")), TargetChange::Added);
    assert_eq!(step(&labelled("1"), &labelled("2")), TargetChange::Added);
    assert_eq!(step(&labelled("1"), &node), TargetChange::Added);
    let other = NodeView {
        labels: map(&[("rack", "1"), ("app", "2")]),
        ..node.clone()
    };
    assert_eq!(step(&labelled("1"), &other), TargetChange::None);
    // A selector may look at any of them.
    let selected = TargetLabels {
        has_selectors: true,
        ..declared.clone()
    };
    let step = change_by(Some(&labelled("1")), Some(&other), &selected);
    assert_eq!(step, TargetChange::Added);
}

/// Kept in the cluster: a release that gives another updates every load balancer again.
#[test]
fn the_revision_never_changes() {
    assert_eq!(
        Targets::among([]).revision().as_str(),
        "5921702612a5e8a6fbc021d6bfe61d8a"
    );
    let node = NodeView {
        provider_id: "mock://1".into(),
        pod_cidrs: ["10.1.0.0/24".into()].into(),
        ..registered("n1")
    };
    let two = [registered("n2"), node].map(Arc::new);
    assert_eq!(
        Targets::among(two).revision().as_str(),
        "86b1677284873b12450f6d41d31656a5"
    );
}

/// S-55, sorted and not as Q-34.
#[test]
fn an_event_names_twenty_nodes() {
    let some = |range: std::ops::Range<u32>| {
        let nodes = range.rev();
        names(&Targets::among(
            nodes.map(|n| Arc::new(registered(&format!("n{n:02}")))),
        ))
    };
    assert_eq!(
        some(1..4),
        "[n01 n02 n03] [node names limited, total number of nodes: 3]"
    );
    let many = some(1..24);
    assert!(many.starts_with("[n01 n02 "), "{many}");
    let end = " n20 <3 more>] [node names limited, total number of nodes: 23]";
    assert!(many.ends_with(end), "{many}");
    assert!(some(1..21).contains(" n20] "));
}

proptest! {
    #[test]
    fn the_revision_is_that_of_the_content(a in any_node(), b in any_node()) {
        let of = |node: &NodeView| Targets::among([Arc::new(node.clone())]);
        let same = of(&a).revision() == of(&b).revision();
        let is_changed = change(Some(&a), Some(&b)) != TargetChange::None;
        // A node that is no target may have been kept until it departs.
        let departs = !is_target(&a) && b.deleted.is_some();
        prop_assert!(same != is_changed || (same && departs));
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(names in vec("[a-d]{1,2}", 0..6)) {
        let names: std::collections::BTreeSet<_> = names.into_iter().collect();
        let nodes: Vec<_> = names.iter().map(|name| Arc::new(registered(name))).collect();
        let there = Targets::among(nodes.iter().cloned());
        let back = Targets::among(nodes.iter().rev().cloned());
        prop_assert_eq!(&there, &back);
        let fewer = Targets::among(nodes.iter().skip(1).cloned());
        prop_assert_eq!(there.revision() == fewer.revision(), nodes.is_empty());
    }
}
