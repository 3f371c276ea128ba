use std::net::IpAddr;

use outrigger_provider_sdk::ErrorReason;
use outrigger_provider_sdk::v1::{HealthCheck, LoadBalancerOptions};

use super::*;
use crate::load_balancer::{ADDRESSES, named_addresses};

fn service(options: LoadBalancerOptions, annotation: &str) -> Service {
    let annotations = [(ADDRESSES.to_owned(), annotation.to_owned())];
    let annotations = annotations.into_iter().filter(|(_, text)| !text.is_empty());
    Service {
        ip_families: vec!["IPv4".to_owned()],
        load_balancer_options: Some(options),
        annotations: annotations.collect(),
        ..Service::default()
    }
}

fn asking(address: &str, annotation: &str) -> Service {
    let options = LoadBalancerOptions {
        requested_addresses: vec![address.to_owned()],
        ..LoadBalancerOptions::default()
    };
    service(options, annotation)
}

#[test]
fn requested_addresses_are_the_named_ones_and_an_annotation_may_only_say_the_same() {
    for annotation in ["", "198.51.100.7"] {
        let named = named_addresses(&asking("198.51.100.7", annotation)).unwrap();
        assert_eq!(named, ["198.51.100.7".parse::<IpAddr>().unwrap()]);
    }
    let refused = [
        (
            asking("198.51.100.7", "198.51.100.8"),
            ErrorReason::ConflictingOptions,
        ),
        (asking("2001:db8::7", ""), ErrorReason::ConflictingOptions),
    ];
    for (service, reason) in refused {
        assert_eq!(
            named_addresses(&service).unwrap_err().reason(),
            Some(reason)
        );
    }
}

#[test]
fn a_load_balancer_is_internal_by_its_scheme_which_takes_links_of_machines() {
    let schemes = [
        Scheme::Unspecified,
        Scheme::InternetFacing,
        Scheme::Internal,
    ];
    let internal = schemes.map(|scheme| {
        let options = LoadBalancerOptions {
            scheme: scheme.into(),
            ..LoadBalancerOptions::default()
        };
        is_internal(&service(options, ""))
    });
    assert_eq!(internal, [false, false, true]);
    let served = [false, true].map(|has_links| served(has_links).schemes);
    assert_eq!(served, [vec![1], vec![1, 2]]);
}

fn checked(check: HealthCheck) -> Result<Option<Check>, Error> {
    let options = LoadBalancerOptions {
        health_check: Some(check),
        ..LoadBalancerOptions::default()
    };
    super::check(&service(options, ""))
}

#[test]
fn a_check_of_the_users_is_read_as_it_was_written_and_an_implied_one_is_none() {
    let http = HealthCheck {
        protocol: HealthCheckProtocol::Http.into(),
        port: 8080,
        path: "/ready now".to_owned(),
        ..HealthCheck::default()
    };
    let tcp = HealthCheck {
        protocol: HealthCheckProtocol::Tcp.into(),
        port: 8080,
        ..HealthCheck::default()
    };
    for (check, text) in [(http.clone(), "8080 /ready now"), (tcp, "8080")] {
        let check = checked(check).unwrap().unwrap();
        assert_eq!(check.to_string(), text);
        assert_eq!(Check::parse(text), Some(check));
    }
    let implied = HealthCheck {
        implied: true,
        ..http.clone()
    };
    assert_eq!(checked(implied).unwrap(), None);
    for path in ["/\"", &"/".repeat(101)] {
        let check = HealthCheck {
            path: path.to_owned(),
            ..http.clone()
        };
        let error = checked(check).unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::UnsupportedFeature));
    }
}
