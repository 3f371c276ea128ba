//! The life of load balancers of a correct mock.

use std::time::Duration;

use outrigger_api::v1::{
    LoadBalancerDisposition as Wire, NodeAddress, NodeSetRef, NodeTargets, Service,
    SyncNodeSetRequest, node_targets,
};
use outrigger_provider_mock::cloud::Clock;
use outrigger_provider_mock::load_balancers::LoadBalancer;
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions};

use crate::balanced::{Balanced, inline, ips, port, service};
use crate::harness::{context, node, reason};

/// LBS-01, LBS-02, LBS-03, LBS-12.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_made_once_and_goes_once() {
    let lb = Balanced::start(|_| {}).await;
    assert_eq!(
        lb.get(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
    let first = lb.make("web").await.unwrap();
    assert_eq!(first.disposition(), Wire::Ready);
    let ip = ips(first.status.as_ref())[0].to_owned();
    assert!(ip.starts_with("198.1"), "{ip}");
    for _ in 0..2 {
        assert_eq!(lb.make("web").await.unwrap(), first);
    }
    let status = lb.get(service("web")).await.unwrap();
    assert_eq!(
        (status.disposition(), status.status),
        (Wire::Ready, first.status)
    );
    assert_eq!(lb.mock.cloud.load_balancers().len(), 1);
    let counters = lb.mock.cloud.counters();
    let served = |operation: &str| {
        counters
            .cloud
            .get(operation)
            .map_or(0, |count| count.served)
    };
    assert_eq!(
        (served("CreateLoadBalancer"), served("ModifyLoadBalancer")),
        (1, 0)
    );
    assert_eq!(
        (
            served("SetTargets"),
            counters.calls("EnsureLoadBalancer", "OK")
        ),
        (0, 3)
    );
    for _ in 0..2 {
        assert_eq!(
            lb.delete(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert!(lb.mock.cloud.load_balancers().is_empty());
    }
}

/// LBS-06 and LBS-19: what is planned is what is done.
#[tokio::test(start_paused = true)]
async fn changes_are_planned_then_made_and_the_address_stays() {
    let lb = Balanced::start(|_| {}).await;
    let planned = lb.plan(service("web"), &["n-1", "n-2"]).await;
    assert_eq!((planned.len(), planned[0].action), (1, 1));
    let before = lb.make("web").await.unwrap().status;
    assert!(lb.plan(service("web"), &["n-1", "n-2"]).await.is_empty());
    let dual_stack = Service {
        ports: vec![port("UDP", 53, 30_053), port("TCP", 443, 30_443)],
        load_balancer_source_ranges: vec!["10.0.0.0/8".into()],
        external_traffic_policy: "Local".into(),
        health_check_node_port: 30_999,
        ..service("web")
    };
    let planned = lb.plan(dual_stack.clone(), &["n-2"]).await;
    let summaries: Vec<_> = planned
        .iter()
        .map(|change| change.summary.as_str())
        .collect();
    assert_eq!(
        summaries,
        [
            "listener UDP/53:30053 would be added",
            "listener TCP/443:30443 would be added",
            "listener TCP/80:30080 would be removed",
            "its source ranges would be changed",
            "its health check would be changed",
            "the targets would be changed, 2 to 1"
        ]
    );
    assert_eq!(lb.targets("web"), ["n-1", "n-2"], "a plan changed it");
    let after = lb
        .ensure(dual_stack.clone(), inline(&["n-2"]))
        .await
        .unwrap();
    assert_eq!(after.status, before);
    let held = lb.held("web");
    assert_eq!(held.ports.len(), 2);
    assert_eq!(held.health_check_node_port, 30_999);
    assert_eq!(lb.targets("web"), ["n-2"]);
    assert!(lb.plan(dual_stack, &["n-2"]).await.is_empty());
}

/// LBS-02, LBS-12 and LBS-20, through `IN_PROGRESS`.
#[tokio::test(start_paused = true)]
async fn a_slow_cloud_is_in_progress_until_it_is_done() {
    for early in [false, true] {
        let lb = Balanced::start(|rules| {
            rules.provisioning = Duration::from_secs(30);
            rules.deprovisioning = Duration::from_secs(20);
            rules.early_addresses = early;
        })
        .await;
        let made = lb.make("web").await.unwrap();
        assert_eq!(
            (made.disposition(), made.reason.as_str()),
            (Wire::InProgress, "Provisioning")
        );
        assert_eq!(made.status.is_some(), early);
        let wait = made.retry_after.unwrap().seconds as u64;
        assert!((29..=30).contains(&wait), "{wait}");
        assert_eq!(
            lb.get(service("web")).await.unwrap().disposition(),
            Wire::InProgress
        );
        tokio::time::sleep(Duration::from_secs(wait + 1)).await;
        let made = lb.make("web").await.unwrap();
        assert_eq!(
            (made.disposition(), ips(made.status.as_ref()).len()),
            (Wire::Ready, 1)
        );

        let going = lb.delete(service("web")).await.unwrap();
        assert_eq!(going.disposition(), Wire::InProgress);
        let again = lb.make("web").await.unwrap();
        assert_eq!(
            (again.disposition(), again.reason.as_str()),
            (Wire::InProgress, "Deleting")
        );
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert_eq!(
            lb.get(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert_eq!(
            lb.delete(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert!(lb.mock.cloud.load_balancers().is_empty());
    }
}

/// LBS-15, LBS-17.
#[tokio::test(start_paused = true)]
async fn targets_follow_an_update_and_nothing_is_made_by_it() {
    let lb = Balanced::start(|_| {}).await;
    lb.make("a").await.unwrap();
    lb.make("b").await.unwrap();
    for nodes in [&["n-1", "n-2", "n-3"][..], &["n-2"], &["n-8", "n-9"], &[]] {
        for (name, disposition) in [
            ("a", Wire::Ready),
            ("b", Wire::Ready),
            ("none", Wire::Absent),
        ] {
            let answer = lb.update(name, nodes).await.unwrap();
            assert_eq!(answer.disposition(), disposition);
        }
        assert_eq!(lb.targets("a"), nodes);
        assert_eq!(lb.targets("b"), nodes);
    }
    assert_eq!(lb.mock.cloud.load_balancers().len(), 2);
}

/// LBS-18, and orphans.
#[tokio::test(start_paused = true)]
async fn a_list_shows_this_cluster_only_and_names_a_lost_tag() {
    let mut config = CloudConfig::new().unwrap();
    config.page_size = 2.try_into().unwrap();
    let lb = Balanced::over(Cloud::new(config), ProviderOptions::default()).await;
    for name in ["a", "b", "c", "d"] {
        lb.make(name).await.unwrap();
    }
    lb.mock
        .cloud
        .add_load_balancer(LoadBalancer {
            id: "lb-foreign".into(),
            cluster: "another".into(),
            addresses: Vec::new(),
            ..lb.held("a")
        })
        .unwrap();
    lb.mock
        .cloud
        .edit_load_balancer(LoadBalancer {
            service: None,
            ..lb.held("b")
        })
        .unwrap();
    let (listed, complete) = lb.list().await.unwrap();
    assert!(complete);
    let tags = listed.iter().map(|one| one.service.as_ref());
    let mut names: Vec<_> = tags
        .map(|tag| tag.map_or("-", |tag| tag.name.as_str()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["-", "a", "c", "d"]);
    // Without its tag it cannot be found: the Service gets another one.
    assert_eq!(
        lb.get(service("b")).await.unwrap().disposition(),
        Wire::Absent
    );
}

/// LBS-14.
#[tokio::test(start_paused = true)]
async fn a_service_that_was_made_again_has_a_load_balancer_of_its_own() {
    let lb = Balanced::start(|_| {}).await;
    let old = lb.make("web").await.unwrap();
    let again = Service {
        uid: "uid-again".into(),
        ..service("web")
    };
    let new = lb.ensure(again.clone(), inline(&[])).await.unwrap();
    assert_ne!(old.identity, new.identity);
    assert_ne!(old.status, new.status);
    lb.delete(service("web")).await.unwrap();
    assert_eq!(lb.get(again).await.unwrap().disposition(), Wire::Ready);
}

#[tokio::test(start_paused = true)]
async fn drift_is_seen_and_repaired() {
    let lb = Balanced::start(|_| {}).await;
    let made = lb.make("web").await.unwrap();
    let drifted = LoadBalancer {
        ports: Vec::new(),
        ..lb.held("web")
    };
    lb.mock.cloud.edit_load_balancer(drifted).unwrap();
    let status = lb.get(service("web")).await.unwrap();
    assert_eq!(
        (status.disposition(), status.reason.as_str()),
        (Wire::Differs, "NotAsWanted")
    );
    assert!(
        status.message.starts_with("listener TCP/80"),
        "{}",
        status.message
    );
    assert_eq!(lb.make("web").await.unwrap().disposition(), Wire::Ready);
    assert_eq!(lb.held("web").ports.len(), 1);
    for (targets, standing) in [
        (Some(inline(&["n-1", "n-2"])), Wire::Ready),
        (Some(inline(&["n-1"])), Wire::Differs),
        (Some(inline(&["n-1", "n-3"])), Wire::Differs),
        // Nothing to compare with.
        (None, Wire::Ready),
    ] {
        let status = lb.compare(service("web"), targets.clone()).await.unwrap();
        assert_eq!(status.disposition(), standing, "{targets:?}");
    }
    let id = lb.held("web").id;
    lb.mock.cloud.remove_load_balancer(&id).unwrap();
    assert_eq!(
        lb.get(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
    // The address follows from the key.
    assert_eq!(lb.make("web").await.unwrap().status, made.status);
}

/// The nodes travel once; load balancers with equal targets keep them once.
#[tokio::test(start_paused = true)]
async fn targets_come_from_a_node_set_too() {
    let lb = Balanced::start(|_| {}).await;
    assert!(
        lb.mock
            .handshake
            .capabilities
            .as_ref()
            .unwrap()
            .node_sets
            .is_some()
    );
    let by_ref = || NodeTargets {
        targets: Some(node_targets::Targets::Ref(NodeSetRef {
            revision: "r1".into(),
            only: None,
        })),
    };
    let unknown = lb.ensure(service("a"), by_ref()).await.unwrap_err();
    assert_eq!(reason(&unknown).as_deref(), Some("NODE_SET_UNKNOWN"));
    let mut first = node("n-1");
    for (kind, address) in [("Hostname", "n-1"), ("InternalIP", "10.0.0.4")] {
        first.addresses.push(NodeAddress {
            r#type: kind.into(),
            address: address.into(),
        });
    }
    let upload = SyncNodeSetRequest {
        context: Some(context()),
        nodes: vec![first],
        complete: true,
        revision: "r1".into(),
        node_count: 1,
    };
    let mut sets = lb.node_sets.clone();
    sets.sync_node_set(futures::stream::iter([upload]))
        .await
        .unwrap();
    for name in ["a", "b"] {
        lb.ensure(service(name), by_ref()).await.unwrap();
    }
    let (a, b) = (lb.held("a"), lb.held("b"));
    assert_eq!(a.targets[0].address, Some([10, 0, 0, 4].into()));
    assert!(
        std::sync::Arc::ptr_eq(&a.targets, &b.targets),
        "they are kept twice"
    );
    assert_eq!(lb.mock.cloud.counters().calls("SyncNodeSet", "OK"), 1);
}

/// LBS-13: the caller goes away at any moment of an ensure, in front of, in the middle of or after any
/// cloud call; a deletion then leaves nothing.
#[tokio::test(start_paused = true)]
async fn an_ensure_that_is_cut_off_leaves_nothing_behind_a_deletion() {
    for after in (0..=70).step_by(5) {
        let mut config = CloudConfig::new().unwrap();
        config.clock = Clock::tokio();
        config.latency = Duration::from_millis(20);
        let lb = Balanced::over(Cloud::new(config), ProviderOptions::default()).await;
        let limit = Duration::from_millis(after);
        let made = tokio::time::timeout(limit, lb.make("web")).await.is_ok();
        assert_eq!(made, after > 40, "cut off after {after} ms");
        assert_eq!(
            lb.delete(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert!(
            lb.mock.cloud.load_balancers().is_empty(),
            "cut off after {after} ms"
        );
        // Whatever still ran is over now.
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(
            lb.mock.cloud.load_balancers().is_empty(),
            "made later, {after} ms"
        );
    }
}
