//! Services that select their targets, and providers that look at labels.

use std::collections::BTreeSet;

use outrigger_core::targets::ANNOTATION_NODE_SELECTOR;
use outrigger_provider_mock::ServedLoadBalancers;
use serde_json::Value;

use super::*;
use outrigger_core::targets::ANNOTATION_TARGETS;
use outrigger_kube::fixture::settled;

fn selecting(name: &str, selector: &str) -> Value {
    let mut service = service(name);
    service["metadata"]["annotations"][ANNOTATION_NODE_SELECTOR] = selector.into();
    service
}

/// Gives the node `n{n}` these labels beside those that it has always.
fn label(rig: &Rig, n: usize, labels: &[(&str, &str)]) {
    let name = format!("n{n}");
    let mut node = settled(&name, &format!("mock://{name}"), "True");
    for (key, value) in labels {
        node["metadata"]["labels"][*key] = (*value).into();
    }
    rig.observe(node);
}

fn targets(rig: &Rig, name: &str) -> BTreeSet<String> {
    let made = rig.cloud.load_balancer(&format!("shop/{name}")).unwrap();
    made.targets.iter().map(|t| t.node.to_string()).collect()
}

fn nodes(of: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    of.into_iter().map(|n| format!("n{n}")).collect()
}

/// Three plain Services, and three that select the nodes n0, n1, n2 of a pool.
async fn with_a_pool(setup: Setup) -> Rig {
    let rig = with_services(3, setup).await;
    for n in 0..3 {
        label(&rig, n, &[("pool", "x")]);
    }
    for n in 0..3 {
        let name = format!("x-{n}");
        rig.cluster.create_service(selecting(&name, "pool=x"));
        rig.ready(&format!("shop/{name}")).await;
    }
    secs(10).await;
    rig
}

/// Found by the simulation: nothing was recorded on the Lease, and the next leader sent all their targets once more.
#[tokio::test(start_paused = true)]
async fn the_first_selector_while_no_process_leads_leaves_the_others_alone() {
    let follows = || Setup {
        leads: false,
        ..Setup::default()
    };
    let rig = with_services(3, Setup::default()).await;
    secs(10).await;
    let rig = rig.restart_with(follows()).await;
    rig.cluster.change_service("shop/web-0", |service| {
        service["metadata"]["annotations"][ANNOTATION_NODE_SELECTOR] = "!pool".into();
    });
    secs(1).await;
    rig.lead().await;
    secs(60).await;
    assert_eq!(rig.calls("EnsureLoadBalancer"), 4);
    assert!(rig.lease.lease()["metadata"]["annotations"][ANNOTATION_TARGETS].is_string());
    let before = rig.mutations();
    let rig = rig.restart_with(follows()).await;
    rig.lead().await;
    secs(60).await;
    assert_eq!(rig.mutations(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_over_selections_is_silent() {
    for served in [
        ServedLoadBalancers::default(),
        ServedLoadBalancers {
            target_label_keys: vec!["rack".into()],
            ..ServedLoadBalancers::default()
        },
    ] {
        let mut rig = with_a_pool(Setup::serving(served.clone())).await;
        label(&rig, 3, &[("pool", "x")]);
        secs(10).await;
        assert!(rig.lease.lease()["metadata"]["annotations"][ANNOTATION_TARGETS].is_string());
        let labels = |rig: &Rig| {
            for n in 0..4 {
                label(rig, n, &[("pool", "x")]);
            }
        };
        for _ in 0..2 {
            let before = (rig.mutations(), rig.writes(), rig.events());
            // The store is filled before the term begins, as by a list.
            let setup = Setup {
                leads: false,
                ..Setup::serving(served.clone())
            };
            rig = rig.restart_with(setup).await;
            labels(&rig);
            rig.lead().await;
            secs(60).await;
            assert_eq!((rig.mutations(), rig.writes(), rig.events()), before);
        }
        // And it works: those alone that select the node.
        let before = rig.calls("UpdateLoadBalancerNodes");
        label(&rig, 3, &[]);
        secs(10).await;
        assert_eq!(targets(&rig, "x-0"), nodes(0..3));
        assert_eq!(rig.calls("UpdateLoadBalancerNodes") - before, 3);
    }
}

/// It has no load balancer that could lack them.
#[tokio::test(start_paused = true)]
async fn a_change_of_nodes_cuts_no_back_off_of_a_service_that_was_never_made() {
    let rig = Rig::start().await;
    rig.fail(Method::EnsureLoadBalancer, trouble());
    rig.cluster.create_service(selecting("web", "pool=x"));
    let changes = async {
        for n in 0..50 {
            label(&rig, 3, &[("pool", ["x", "y"][n % 2])]);
            secs(2).await;
        }
    };
    let (times, ()) = tokio::join!(call_times(&rig, "EnsureLoadBalancer", 100), changes);
    assert_eq!(times, [0, 5, 15, 35, 75]);
}

#[tokio::test(start_paused = true)]
async fn a_declared_label_is_part_of_each_target() {
    let setup = Setup::serving(ServedLoadBalancers {
        target_label_keys: vec!["rack".into()],
        ..ServedLoadBalancers::default()
    });
    let rig = with_services(3, setup).await;
    label(&rig, 3, &[("rack", "7")]);
    secs(10).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 3);
    label(&rig, 3, &[("rack", "7"), ("pool", "x")]);
    secs(10).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 3);
    label(&rig, 3, &[("pool", "x")]);
    secs(10).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_label_of_one_node_concerns_none_of_the_services_that_have_it_as_before() {
    let rig = Rig::start().await;
    for n in 0..10 {
        label(&rig, n, &[("pool", &(n % 5).to_string())]);
    }
    for n in 0..100 {
        let selector = format!("pool in ({},new)", n % 5);
        rig.cluster
            .create_service(selecting(&format!("s-{n}"), &selector));
    }
    for n in 0..100 {
        rig.ready(&format!("shop/s-{n}")).await;
    }
    let updates = rig.calls("UpdateLoadBalancerNodes");
    label(&rig, 0, &[("pool", "new")]);
    secs(30).await;
    for n in 0..100 {
        let own = nodes([n % 5, n % 5 + 5]);
        let expected = own.union(&nodes([0])).cloned().collect();
        assert_eq!(targets(&rig, &format!("s-{n}")), expected, "{n}");
    }
    // Those of pool 0 have the node already.
    assert_eq!(rig.calls("UpdateLoadBalancerNodes") - updates, 80);
}
