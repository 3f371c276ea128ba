//! Load balancers of a correct mock: those that it refuses, a quota and a pool that are used up, and a slow cloud.

use std::time::Duration;

use outrigger_api::v1::{LoadBalancerDisposition as Wire, Service};
use outrigger_provider_mock::load_balancers::LoadBalancerRules;
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
