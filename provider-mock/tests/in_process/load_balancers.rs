//! Load balancers of a correct mock: those that it offers and refuses, and their life in a slow or changed cloud.

use std::time::Duration;

use outrigger_api::v1::{
    LoadBalancerDisposition as Wire, LoadBalancerIngress, LoadBalancerStatus, Service,
};
use outrigger_provider_mock::load_balancers::{LoadBalancer, LoadBalancerRules};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedLoadBalancers};
use tonic::Code;

use crate::balanced::{Balanced, annotated, inline, ips, port, service};
use crate::harness::reason;

/// LBS-07.
#[tokio::test(start_paused = true)]
async fn a_wish_that_the_cloud_cannot_serve_is_refused_and_makes_nothing() {
    let lb = Balanced::start(|rules| {
        rules.without_mixed_protocols = true;
        rules.pools.truncate(1);
    })
    .await;
    let with_ports = |ports| Service {
        ports,
        ..service("web")
    };
    for (service, says, why) in [
        (
            with_ports(vec![port("SCTP", 1, 1)]),
            "wants SCTP",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            with_ports(vec![port("TCP", 1, 1), port("UDP", 1, 2)]),
            "several protocols",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            Service {
                ip_families: vec!["IPv6".into()],
                ..service("web")
            },
            "no pool",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            Service {
                load_balancer_ip: "192.0.2.1".into(),
                ..service("web")
            },
            "loadBalancerIP \"192.0.2.1\"",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "address-mode", "pigeon"),
            "use ip, vip, proxy",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "provisioning-time", "soon"),
            "provisioning-time",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "deletion-protection", "yes"),
            "neither true",
            "INVALID_ANNOTATION",
        ),
    ] {
        let refused = lb.ensure(service, inline(&[])).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(reason(&refused).as_deref(), Some(why), "{refused}");
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    assert!(lb.mock.cloud.load_balancers().is_empty());
}

/// LBS-10.
#[tokio::test(start_paused = true)]
async fn addresses_come_in_the_wanted_families_and_modes() {
    let lb = Balanced::start(|_| {}).await;
    let dual = Service {
        ip_families: vec!["IPv6".into(), "IPv4".into()],
        ..service("dual")
    };
    let status = lb.ensure(dual, inline(&[])).await.unwrap().status;
    let addresses = ips(status.as_ref());
    assert!(
        addresses[0].starts_with("2001:db8:1b:") && addresses[1].starts_with("198.1"),
        "{addresses:?}"
    );
    for (mode, ip_mode) in [("ip", None), ("vip", Some("VIP")), ("proxy", Some("Proxy"))] {
        let made = lb
            .ensure(annotated(mode, "address-mode", mode), inline(&[]))
            .await
            .unwrap();
        assert_eq!(made.status.unwrap().ingress[0].ip_mode.as_deref(), ip_mode);
    }
    let named = annotated("web", "address-mode", "hostname");
    let made = lb.ensure(named, inline(&[])).await.unwrap().status.unwrap();
    assert!(
        made.ingress[0].hostname.ends_with(".lb.mock.example") && made.ingress[0].ip.is_empty()
    );
    let wish = Service {
        load_balancer_ip: "198.18.7.7".into(),
        ..service("requested")
    };
    let made = lb.ensure(wish.clone(), inline(&[])).await.unwrap();
    assert_eq!(ips(made.status.as_ref()), ["198.18.7.7"]);
    let second = Service {
        uid: "another".into(),
        ..wish
    };
    let refused = lb.ensure(second, inline(&[])).await.unwrap_err();
    assert_eq!(reason(&refused).as_deref(), Some("CONFLICTING_RESOURCE"));
}

#[tokio::test(start_paused = true)]
async fn quota_and_pool_are_used_up_and_freed() {
    for (change, says) in [
        (
            (|rules| rules.quota = Some(2)) as fn(&mut LoadBalancerRules),
            "quota",
        ),
        (
            |rules| rules.pools = vec!["192.0.2.0/30".parse().unwrap()],
            "no address left",
        ),
    ] {
        let lb = Balanced::start(change).await;
        lb.make("a").await.unwrap();
        lb.make("b").await.unwrap();
        let full = lb.make("c").await.unwrap_err();
        assert_eq!(reason(&full).as_deref(), Some("QUOTA_EXCEEDED"));
        assert!(full.message().contains(says), "{full}");
        lb.make("a").await.unwrap();
        lb.delete(service("a")).await.unwrap();
        lb.make("c").await.unwrap();
    }
}

/// LBS-11.
#[tokio::test(start_paused = true)]
async fn classes_and_an_annotation_decide_who_is_managed() {
    let served = ServedLoadBalancers {
        classes: vec!["mock.example/a".into()],
        without_default_class: true,
        ..ServedLoadBalancers::default()
    };
    let lb = Balanced::serving(|_| {}, served).await;
    let offered = lb
        .mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .load_balancers
        .unwrap();
    assert!(offered.without_default_class && offered.list && offered.plan);
    let of_class = |class: Option<&str>| Service {
        load_balancer_class: class.map(Into::into),
        ..service("web")
    };
    for class in [None, Some("other/b")] {
        let answer = lb.ensure(of_class(class), inline(&[])).await.unwrap();
        assert_eq!(answer.disposition(), Wire::NotManaged);
    }
    let foreign = Service {
        load_balancer_class: Some("mock.example/a".into()),
        ..annotated("web", "not-managed", "true")
    };
    assert_eq!(
        lb.get(foreign.clone()).await.unwrap().disposition(),
        Wire::NotManaged
    );
    let answer = lb.ensure(foreign.clone(), inline(&[])).await.unwrap();
    assert_eq!(answer.disposition(), Wire::NotManaged);
    assert_eq!(
        lb.delete(foreign).await.unwrap().disposition(),
        Wire::NotManaged
    );
    assert!(lb.mock.cloud.load_balancers().is_empty());
    let answer = lb
        .ensure(of_class(Some("mock.example/a")), inline(&[]))
        .await
        .unwrap();
    assert_eq!(answer.disposition(), Wire::Ready);
}

/// A pool without a store: only Kubernetes knows the addresses of before its start.
#[tokio::test(start_paused = true)]
async fn a_service_keeps_the_address_of_its_status_if_it_is_free() {
    let lb = Balanced::serving(
        |rules| rules.pools = vec!["192.0.2.0/29".parse().unwrap()],
        ServedLoadBalancers::default(),
    )
    .await;
    let with = |name: &str, ip: &str| Service {
        status: Some(LoadBalancerStatus {
            ingress: vec![LoadBalancerIngress {
                ip: ip.to_owned(),
                ..LoadBalancerIngress::default()
            }],
        }),
        ..service(name)
    };
    let ensured = async |name: &str, ip: &str| {
        let answer = lb.ensure(with(name, ip), inline(&[])).await.unwrap();
        let given = ips(answer.status.as_ref());
        given.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ensured("a", "192.0.2.5").await, ["192.0.2.5"]);
    assert_eq!(ensured("b", "192.0.2.1").await, ["192.0.2.1"]);
    let taken = ensured("c", "192.0.2.5").await;
    assert!(taken != ["192.0.2.5"], "{taken:?}");
    let foreign = ensured("d", "203.0.113.9").await;
    assert!(foreign != ["203.0.113.9"], "{foreign:?}");
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
