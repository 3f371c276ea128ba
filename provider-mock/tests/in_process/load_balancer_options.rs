//! Portable options of a load balancer: kept, compared, changed, taken back, and refused.

use outrigger_api::v1::{
    HealthCheck, HealthCheckProtocol, LoadBalancerDisposition as Wire, LoadBalancerOptions,
    LoadBalancerScheme, ProxyProtocol, Service,
};

use crate::balanced::{Balanced, annotated, inline, ips, service};
use crate::harness::reason;

fn asking(service: Service, options: LoadBalancerOptions) -> Service {
    Service {
        load_balancer_options: Some(options),
        ..service
    }
}

fn all() -> LoadBalancerOptions {
    LoadBalancerOptions {
        scheme: LoadBalancerScheme::Internal.into(),
        requested_addresses: vec!["198.18.7.7".into()],
        reserved_address_names: vec!["eip-1".into(), "eip-2".into()],
        proxy_protocol: ProxyProtocol::V2.into(),
        health_check: Some(HealthCheck {
            protocol: HealthCheckProtocol::Http.into(),
            port: 8080,
            path: "/ready".into(),
            interval_seconds: 10,
            ..HealthCheck::default()
        }),
    }
}

fn addresses(addresses: &[&str]) -> LoadBalancerOptions {
    LoadBalancerOptions {
        requested_addresses: addresses.iter().map(|ip| (*ip).to_owned()).collect(),
        ..LoadBalancerOptions::default()
    }
}

fn of_scheme(scheme: LoadBalancerScheme) -> LoadBalancerOptions {
    LoadBalancerOptions {
        scheme: scheme.into(),
        ..LoadBalancerOptions::default()
    }
}

/// LBS-50 to LBS-54, LBS-56 and LBS-58.
#[tokio::test(start_paused = true)]
async fn options_are_kept_compared_and_taken_back_while_the_address_stays() {
    let lb = Balanced::start(|_| {}).await;
    let request = asking(service("web"), all());
    let made = lb.ensure(request.clone(), inline(&[])).await.unwrap();
    assert_eq!(ips(made.status.as_ref()), ["198.18.7.7"]);
    let kept = lb.held("web").options.into_iter();
    let kept: Vec<_> = kept
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        kept,
        [
            "health-check=http 8080/ready 10s 0s 0 up 0 down",
            "proxy-protocol=v2",
            "reserved-addresses=eip-1,eip-2",
            "scheme=internal",
        ]
    );
    let same = lb.get(request).await.unwrap();
    assert_eq!(same.disposition(), Wire::Ready);
    let other = LoadBalancerOptions {
        proxy_protocol: ProxyProtocol::V1.into(),
        ..all()
    };
    let other = lb.get(asking(service("web"), other)).await.unwrap();
    assert_eq!(other.disposition(), Wire::Differs);
    assert_eq!(other.message, "its option proxy-protocol would become v1");

    let plain = lb.ensure(service("web"), inline(&[])).await.unwrap();
    assert_eq!(ips(plain.status.as_ref()), ["198.18.7.7"]);
    assert!(lb.held("web").options.is_empty());
    let moved = asking(service("web"), addresses(&["198.18.7.8"]));
    let moved = lb.ensure(moved, inline(&[])).await.unwrap();
    assert_eq!(ips(moved.status.as_ref()), ["198.18.7.8"]);
}

/// LBS-55 and LBS-57.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_or_contradicts_is_refused_and_makes_nothing() {
    use LoadBalancerScheme::{Internal, InternetFacing};
    let lb = Balanced::start(|_| {}).await;
    let owner = asking(service("owner"), addresses(&["198.18.7.7"]));
    lb.ensure(owner, inline(&[])).await.unwrap();
    let internal = |value| annotated("web", "internal", value);
    for (service, why) in [
        (
            asking(service("web"), addresses(&["198.18.7.7"])),
            "CONFLICTING_RESOURCE",
        ),
        (
            asking(service("web"), addresses(&["192.0.2.1"])),
            "CONFLICTING_RESOURCE",
        ),
        (
            asking(service("web"), addresses(&["2001:db8:1b::7"])),
            "CONFLICTING_OPTIONS",
        ),
        (
            asking(
                annotated("web", "address-mode", "hostname"),
                addresses(&["198.18.7.8"]),
            ),
            "CONFLICTING_OPTIONS",
        ),
        (
            asking(internal("true"), of_scheme(InternetFacing)),
            "CONFLICTING_OPTIONS",
        ),
        (
            asking(internal("false"), of_scheme(Internal)),
            "CONFLICTING_OPTIONS",
        ),
        (internal("perhaps"), "INVALID_ANNOTATION"),
    ] {
        let refused = lb.ensure(service, inline(&[])).await.unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some(why), "{refused}");
        assert_eq!(lb.mock.cloud.load_balancers().len(), 1);
    }
    for options in [of_scheme(Internal), LoadBalancerOptions::default()] {
        let same = asking(internal("true"), options);
        lb.ensure(same, inline(&[])).await.unwrap();
        assert_eq!(lb.held("web").options["scheme"], "internal");
    }
}
