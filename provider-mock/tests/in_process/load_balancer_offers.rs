//! Which load balancers a correct mock offers, and which it refuses.

use outrigger_api::v1::{
    LoadBalancerDisposition as Wire, LoadBalancerIngress, LoadBalancerStatus, Service,
};
use outrigger_provider_mock::load_balancers::LoadBalancerRules;
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

#[tokio::test(start_paused = true)]
async fn a_protected_load_balancer_is_retained() {
    let lb = Balanced::start(|_| {}).await;
    let protected = annotated("web", "deletion-protection", "true");
    lb.ensure(protected.clone(), inline(&[])).await.unwrap();
    for _ in 0..2 {
        let kept = lb.delete(protected.clone()).await.unwrap();
        assert_eq!(
            (kept.disposition(), kept.reason.as_str()),
            (Wire::Retained, "DeletionProtected")
        );
    }
    lb.make("web").await.unwrap();
    assert_eq!(
        lb.delete(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
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

#[tokio::test(start_paused = true)]
async fn effects_come_only_where_they_were_asked_for() {
    let plain = Balanced::start(|_| {}).await;
    assert!(plain.make("web").await.unwrap().effects.is_none());
    assert!(
        plain
            .mock
            .handshake
            .capabilities
            .as_ref()
            .unwrap()
            .effects
            .is_none()
    );
    let served = ServedLoadBalancers {
        effects: true,
        ..ServedLoadBalancers::default()
    };
    let lb = Balanced::serving(|_| {}, served).await;
    let declared = lb
        .mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .effects
        .unwrap();
    let prefix = &declared.service_annotation_prefixes[0];
    for events in [1, 0] {
        let effects = lb.make("web").await.unwrap().effects.unwrap();
        assert_eq!(effects.events.len(), events);
        assert!(
            effects
                .set_annotations
                .keys()
                .all(|key| key.starts_with(prefix))
        );
        assert!(effects.conditions[0].r#type.starts_with(prefix));
    }
    // Twice: of one that was just deleted, and of one that was deleted before.
    for _ in 0..2 {
        let effects = lb.delete(service("web")).await.unwrap().effects.unwrap();
        assert_eq!(effects.remove_annotations, [format!("{prefix}id")]);
        assert_eq!(effects.remove_conditions, [format!("{prefix}Listening")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mock_may_offer_no_load_balancers_or_no_node_sets() {
    let over = async |options| {
        let cloud = Cloud::new(CloudConfig::new().unwrap());
        Balanced::over(cloud, options).await
    };
    let none = over(ProviderOptions {
        load_balancers: None,
        ..ProviderOptions::default()
    })
    .await;
    let offered = none.mock.handshake.capabilities.clone().unwrap();
    assert!(offered.load_balancers.is_none() && offered.node_sets.is_none());
    let refused = none.make("web").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let inline_only = over(ProviderOptions {
        without_node_sets: true,
        ..ProviderOptions::default()
    })
    .await;
    let offered = inline_only.mock.handshake.capabilities.clone().unwrap();
    assert!(offered.load_balancers.is_some() && offered.node_sets.is_none());
    assert_eq!(
        inline_only.make("web").await.unwrap().disposition(),
        Wire::Ready
    );
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
