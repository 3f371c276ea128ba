use std::{collections::HashSet, sync::Arc};

use proptest::{collection::vec, prelude::*, sample::select};

use super::{TargetPool, TargetRequests, counts};
use crate::{
    fixture::{load_balancer, map, registered},
    node::{NodeView, labels::ZONE},
    service::ServiceView,
    targets::{ANNOTATION_NODE_SELECTOR, LABEL_EXCLUDE, Revision, TargetRules, Targets},
};

type Labels<'a> = &'a [(&'a str, &'a str)];

fn node(name: &str, labels: Labels<'_>) -> Arc<NodeView> {
    Arc::new(NodeView {
        labels: map(labels),
        ..registered(name)
    })
}

fn service(annotations: Labels<'_>) -> ServiceView {
    ServiceView {
        annotations: map(annotations),
        ..load_balancer("web")
    }
}

fn selecting(selector: &str) -> ServiceView {
    service(&[(ANNOTATION_NODE_SELECTOR, selector)])
}

fn requests(rules: TargetRules, services: &[&ServiceView]) -> Arc<TargetRequests> {
    let mut requests = TargetRequests::new(rules);
    for service in services {
        requests.add(&service.annotations);
    }
    Arc::new(requests)
}

fn pool_of(
    rules: &TargetRules,
    nodes: &[Arc<NodeView>],
    services: &[&ServiceView],
) -> Arc<TargetPool> {
    let requests = requests(rules.clone(), services);
    Arc::new(TargetPool::among(nodes.iter().cloned(), &requests))
}

fn pool(nodes: &[Arc<NodeView>], services: &[&ServiceView]) -> Arc<TargetPool> {
    pool_of(&TargetRules::default(), nodes, services)
}

fn names(targets: &Targets) -> Vec<&str> {
    targets.nodes().iter().map(|node| &*node.name).collect()
}

fn six() -> Vec<Arc<NodeView>> {
    vec![
        node("a", &[("pool", "x"), (ZONE, "1")]),
        node("b", &[("pool", "x"), (ZONE, "2")]),
        node("c", &[("pool", "x"), (ZONE, "3"), (LABEL_EXCLUDE, "")]),
        node("d", &[("pool", "y"), (ZONE, "1")]),
        node("e", &[("pool", "y"), (ZONE, "2")]),
        node("f", &[]),
    ]
}

#[test]
fn a_service_gets_the_targets_that_it_selects() {
    let (x, y) = (selecting("pool=x"), selecting("pool notin (x)"));
    let pool = pool(&six(), &[&x, &y]);
    assert_eq!(names(pool.all()), ["a", "b", "d", "e", "f"]);
    assert_eq!(
        names(&pool.targets_of(&service(&[]))),
        ["a", "b", "d", "e", "f"]
    );
    assert_eq!(names(&pool.targets_of(&x)), ["a", "b"]);
    assert_eq!(names(&pool.targets_of(&y)), ["d", "e", "f"]);
    // A selector that the pool was not made for.
    assert_eq!(names(&pool.targets_of(&selecting("pool=y"))), ["d", "e"]);
    // Nothing is done for it.
    assert_eq!(
        names(&pool.targets_of(&selecting("pool in"))),
        ["a", "b", "d", "e", "f"]
    );
}

/// Without annotations and declarations all is as it was: the Lease's revision too.
#[test]
fn no_selection_makes_no_difference() {
    let pool = pool(&six(), &[&service(&[])]);
    let plain = Targets::among(six());
    assert_eq!(pool.revision(), plain.revision());
    assert_eq!(**pool.all(), plain);
    let requests = requests(TargetRules::default(), &[&service(&[])]);
    assert_eq!(requests.label_keys().count(), 0);
}

/// A revision of a pool names the targets of each Service: another one for whatever makes a difference to any.
#[test]
fn what_makes_another_pool() {
    let x = selecting("pool=x");
    let relabelled = |name: &str, labels: Labels<'_>| {
        let nodes = six().into_iter();
        let nodes = nodes.map(|old| {
            if &*old.name == name {
                node(name, labels)
            } else {
                old
            }
        });
        nodes.collect::<Vec<_>>()
    };
    let rules = TargetRules {
        label_keys: ["rack".into()].into(),
    };
    let none = TargetRules::default();
    for (what, changes, rules, services, nodes) in [
        ("nothing", false, &none, vec![&x], six()),
        (
            "a label that none names",
            false,
            &none,
            vec![&x],
            relabelled("f", &[("other", "")]),
        ),
        (
            "a label that is selected by",
            true,
            &none,
            vec![&x],
            relabelled("f", &[("pool", "x")]),
        ),
        (
            "a value that is not selected",
            // A selector is not evaluated for the name of a pool.
            true,
            &none,
            vec![&x],
            relabelled("f", &[("pool", "z")]),
        ),
        (
            "a declared label",
            true,
            &rules,
            vec![],
            relabelled("f", &[("rack", "7")]),
        ),
        (
            "a label beside it",
            false,
            &rules,
            vec![],
            relabelled("f", &[("pool", "x")]),
        ),
        (
            "the zone",
            false,
            &none,
            vec![&x],
            relabelled("f", &[(ZONE, "9")]),
        ),
    ] {
        let before = pool_of(rules, &six(), &services);
        let after = pool_of(rules, &nodes, &services);
        assert_eq!(before.revision() != after.revision(), changes, "{what}");
    }
    let revisions = [
        pool(&six(), &[]).revision().clone(),
        pool(&six(), &[&x]).revision().clone(),
    ];
    let different: HashSet<_> = revisions.iter().collect();
    assert_eq!(different.len(), revisions.len());
    // Services that select alike make no other pool.
    assert_eq!(pool(&six(), &[&x, &x]).revision(), &revisions[1]);
}

#[test]
fn which_labels_are_looked_at() {
    let x = selecting("pool=x,!gpu");
    let rules = TargetRules {
        label_keys: ["rack".into()].into(),
    };
    let keys = |services: &[&ServiceView]| {
        let requests = requests(rules.clone(), services);
        let mut keys: Vec<_> = requests.label_keys().map(ToString::to_string).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&[]), ["rack"]);
    assert_eq!(keys(&[&x]), ["gpu", "pool", "rack"]);
}

#[test]
fn what_services_add() {
    let x = selecting("pool=x");
    let covers = |services: &[&ServiceView], service: &ServiceView| {
        requests(TargetRules::default(), services).cover(&service.annotations)
    };
    assert!(covers(&[], &service(&[])) && !covers(&[], &x));
    assert!(covers(&[&x], &selecting("pool=y")) && !covers(&[&x], &selecting("pool,gpu")));
}

#[test]
fn a_selection_names_the_set_that_it_is_of() {
    let x = selecting("pool=x");
    let pool = pool(&six(), &[&x]);
    assert_eq!(pool.targets_of(&x).whole(), Some(pool.all()));
    assert_eq!(pool.targets_of(&service(&[])).whole(), None);
}

/// Whoever may create Services decides how many selectors there are. The list of targets of each, 8 bytes a Node, is not kept.
#[test]
fn selectors_cost_no_hash_of_a_node_and_keep_nothing() {
    let nodes: Vec<_> = (0..1_000)
        .map(|n| node(&format!("n{n:04}"), &[("pool", "x")]))
        .collect();
    let services: Vec<_> = (0..300).map(|n| selecting(&format!("!a{n:03}"))).collect();
    let services: Vec<_> = services.iter().collect();
    let requests = requests(TargetRules::default(), &services);
    let counted = |work: &mut dyn FnMut()| {
        let count = || (counts::HASHED.get(), counts::EVALUATED.get());
        let before = count();
        work();
        let after = count();
        (after.0 - before.0, after.1 - before.1)
    };
    let mut pool = TargetPool::default();
    let made = counted(&mut || pool = TargetPool::among(nodes.iter().cloned(), &requests));
    assert_eq!(made, (1_000, 0), "each node once, and no selector");
    // One node is another.
    let mut changed = nodes.clone();
    changed[7] = node("n0007", &[("pool", "y")]);
    let mut next = TargetPool::default();
    let again = counted(&mut || next = TargetPool::of(changed.clone(), &requests, Some(&pool)));
    assert_eq!(again, (1, 0), "the node that changed");
    // For one Service.
    let own = counted(&mut || drop(next.targets_of(services[5])));
    assert_eq!(own, (0, 1), "its selector alone");
    assert_eq!(
        Arc::strong_count(&changed[0]),
        2 + 2,
        "here twice, and in both pools"
    );
}

proptest! {
    /// A pool that names the same revision has the same targets for each Service, whatever the nodes are.
    #[test]
    fn equal_revisions_have_equal_targets(
        nodes in vec(vec(select(vec!["pool", "gpu", "rack", ZONE]), 0..3), 0..12),
        edited in vec(vec(select(vec!["pool", "gpu", "rack", ZONE]), 0..3), 0..12),
    ) {
        let services = [
            service(&[]),
            selecting("pool"),
            selecting("!gpu"),
        ];
        let rules = TargetRules {
            label_keys: ["rack".into()].into(),
        };
        let pool = |nodes: &[Vec<&str>]| {
            let nodes: Vec<_> = nodes.iter().enumerate().map(|(at, keys)| {
                let labels: Vec<_> = keys.iter().map(|key| (*key, "1")).collect();
                node(&format!("n{at}"), &labels)
            }).collect();
            pool_of(&rules, &nodes, &services.each_ref())
        };
        let (a, b) = (pool(&nodes), pool(&edited));
        for service in &services {
            let own = |pool: &TargetPool| pool.targets_of(service).revision().clone();
            prop_assert_eq!(a.revision_for(service), own(&a));
            prop_assert_eq!(own(&a) == Revision::of_none(), a.targets_of(service).is_empty());
        }
        if a.revision() == b.revision() {
            for service in &services {
                let (a, b) = (a.targets_of(service), b.targets_of(service));
                prop_assert_eq!(a.revision(), b.revision());
                prop_assert_eq!(names(&a), names(&b));
            }
        }
    }
}
