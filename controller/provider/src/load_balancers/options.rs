//! Options of a load balancer on the wire: what a provider declares, and what it is sent.
//!
//! Words of annotations are turned into the contract's enums here and nowhere else.

use std::ops::RangeInclusive;

use outrigger_api::v1;
use outrigger_core::service::options::{
    HTTP, LoadBalancerOptions, ServedHealthChecks, ServedOptions, TCP,
};

/// Requested addresses of one load balancer, and names of reserved ones.
const MAX_ADDRESSES: u32 = 2;
const MAX_NAMES: u32 = 8;
/// End of a range.
const MAX_VALUE: u32 = 86_400;

const SCHEMES: [(v1::LoadBalancerScheme, &str); 2] = [
    (v1::LoadBalancerScheme::InternetFacing, "internet-facing"),
    (v1::LoadBalancerScheme::Internal, "internal"),
];

const PROXY_PROTOCOLS: [(v1::ProxyProtocol, &str); 2] =
    [(v1::ProxyProtocol::V1, "v1"), (v1::ProxyProtocol::V2, "v2")];

const HEALTH_CHECK_PROTOCOLS: [(v1::HealthCheckProtocol, &str); 3] = [
    (v1::HealthCheckProtocol::Tcp, TCP),
    (v1::HealthCheckProtocol::Http, HTTP),
    (v1::HealthCheckProtocol::Https, "https"),
];

/// The options that a handshake declares. Counts are cut to the contract's limits, and values of a later contract are
/// ignored.
///
/// # Errors
/// How they break the contract.
pub(crate) fn served(
    declared: &v1::LoadBalancerOptionsCapability,
) -> Result<ServedOptions, String> {
    let health_check = declared.health_check.as_ref().map(served_health_checks);
    Ok(ServedOptions {
        schemes: words(&SCHEMES, declared.schemes()),
        max_requested_addresses: declared.max_requested_addresses.min(MAX_ADDRESSES) as usize,
        max_reserved_address_names: declared.max_reserved_address_names.min(MAX_NAMES) as usize,
        proxy_protocols: words(&PROXY_PROTOCOLS, declared.proxy_protocols()),
        health_check: health_check.transpose()?,
    })
}

fn served_health_checks(
    declared: &v1::HealthCheckCapability,
) -> Result<ServedHealthChecks, String> {
    let protocols = words(&HEALTH_CHECK_PROTOCOLS, declared.protocols());
    if protocols.is_empty() {
        return Err("load_balancers.options.health_check has no protocol".to_owned());
    }
    Ok(ServedHealthChecks {
        protocols,
        interval_seconds: range("interval_seconds", declared.interval_seconds)?,
        timeout_seconds: range("timeout_seconds", declared.timeout_seconds)?,
        healthy_threshold: range("healthy_threshold", declared.healthy_threshold)?,
        unhealthy_threshold: range("unhealthy_threshold", declared.unhealthy_threshold)?,
    })
}

fn range(
    field: &str,
    declared: Option<v1::UintRange>,
) -> Result<Option<RangeInclusive<u32>>, String> {
    let Some(v1::UintRange { min, max }) = declared else {
        return Ok(None);
    };
    if min == 0 || max < min || max > MAX_VALUE {
        return Err(format!(
            "load_balancers.options.health_check.{field} is {min} to {max}, which is no range from 1 to {MAX_VALUE}"
        ));
    }
    Ok(Some(min..=max))
}

/// The options as a provider is sent them.
pub(super) fn sent(options: LoadBalancerOptions) -> v1::LoadBalancerOptions {
    let addresses = options.requested_addresses.iter();
    let names = options.reserved_address_names.into_iter();
    v1::LoadBalancerOptions {
        scheme: number(&SCHEMES, options.scheme),
        requested_addresses: addresses.map(ToString::to_string).collect(),
        reserved_address_names: names.map(Into::into).collect(),
        proxy_protocol: number(&PROXY_PROTOCOLS, options.proxy_protocol),
        health_check: options.health_check.map(|check| v1::HealthCheck {
            implied: check.implied,
            protocol: number(&HEALTH_CHECK_PROTOCOLS, Some(check.protocol)),
            port: check.port,
            path: check.path.into(),
            interval_seconds: check.interval_seconds.unwrap_or_default(),
            timeout_seconds: check.timeout_seconds.unwrap_or_default(),
            healthy_threshold: check.healthy_threshold.unwrap_or_default(),
            unhealthy_threshold: check.unhealthy_threshold.unwrap_or_default(),
        }),
    }
}

/// The words for what is declared, each once, in the order of the declaration.
fn words<W: PartialEq>(
    pairs: &[(W, &'static str)],
    declared: impl Iterator<Item = W>,
) -> Box<[&'static str]> {
    let mut words: Vec<&'static str> = Vec::new();
    for value in declared {
        let pair = pairs.iter().find(|pair| pair.0 == value);
        words.extend(pair.map(|pair| pair.1).filter(|word| !words.contains(word)));
    }
    words.into()
}

/// The number of `word` on the wire; without one that of UNSPECIFIED.
fn number<W: Copy + Into<i32>>(pairs: &[(W, &str)], word: Option<&str>) -> i32 {
    let pair = pairs.iter().find(|pair| Some(pair.1) == word);
    pair.map_or(0, |pair| pair.0.into())
}

#[cfg(test)]
mod tests {
    use outrigger_core::service::options::HealthCheck;

    use super::*;

    const RANGE: Option<v1::UintRange> = Some(v1::UintRange { min: 1, max: 60 });

    /// Each value twice, and one of a later contract.
    fn declared() -> v1::LoadBalancerOptionsCapability {
        v1::LoadBalancerOptionsCapability {
            schemes: vec![2, 1, 99, 0, 2, 1],
            max_requested_addresses: 9,
            max_reserved_address_names: 99,
            proxy_protocols: vec![2, 99, 2],
            health_check: Some(v1::HealthCheckCapability {
                protocols: vec![3, 99, 1, 3],
                interval_seconds: RANGE,
                unhealthy_threshold: RANGE,
                ..v1::HealthCheckCapability::default()
            }),
            fixed: vec![1, 99],
        }
    }

    #[test]
    fn a_declaration_is_cut_to_the_limits_of_the_contract() {
        let expected = ServedOptions {
            schemes: ["internal", "internet-facing"].into(),
            max_requested_addresses: 2,
            max_reserved_address_names: 8,
            proxy_protocols: ["v2"].into(),
            health_check: Some(ServedHealthChecks {
                protocols: ["https", TCP].into(),
                interval_seconds: Some(1..=60),
                unhealthy_threshold: Some(1..=60),
                ..ServedHealthChecks::default()
            }),
        };
        assert_eq!(served(&declared()), Ok(expected));
        let nothing = served(&v1::LoadBalancerOptionsCapability::default());
        assert_eq!(nothing, Ok(ServedOptions::default()));
    }

    #[test]
    fn health_checks_without_protocol_and_ranges_that_are_none_are_refused() {
        let refused = |change: &dyn Fn(&mut v1::HealthCheckCapability)| {
            let mut declared = declared();
            change(declared.health_check.get_or_insert_default());
            served(&declared).unwrap_err()
        };
        let bare = refused(&|checks| checks.protocols = vec![0, 99]);
        assert_eq!(bare, "load_balancers.options.health_check has no protocol");
        for (min, max) in [(0, 5), (6, 5), (1, 86_401)] {
            let range = Some(v1::UintRange { min, max });
            for (field, refusal) in [
                (
                    "interval_seconds",
                    refused(&|checks| checks.interval_seconds = range),
                ),
                (
                    "timeout_seconds",
                    refused(&|checks| checks.timeout_seconds = range),
                ),
                (
                    "healthy_threshold",
                    refused(&|checks| checks.healthy_threshold = range),
                ),
                (
                    "unhealthy_threshold",
                    refused(&|checks| checks.unhealthy_threshold = range),
                ),
            ] {
                let expected = format!("health_check.{field} is {min} to {max}, which is no range");
                assert!(refusal.contains(&expected), "{refusal}");
            }
        }
    }

    #[test]
    fn options_are_sent_whole() {
        let options = LoadBalancerOptions {
            hostname: Some("web.example.com".into()),
            scheme: Some("internal"),
            requested_addresses: vec!["2001:db8:0::7".parse().unwrap()],
            reserved_address_names: vec!["eip-b".into(), "eip-a".into()],
            proxy_protocol: Some("v2"),
            health_check: Some(HealthCheck {
                implied: true,
                protocol: "https",
                port: 30_999,
                path: "/healthz".into(),
                interval_seconds: Some(1),
                timeout_seconds: Some(2),
                healthy_threshold: Some(3),
                unhealthy_threshold: Some(4),
            }),
        };
        let expected = v1::LoadBalancerOptions {
            scheme: v1::LoadBalancerScheme::Internal.into(),
            requested_addresses: vec!["2001:db8::7".into()],
            reserved_address_names: vec!["eip-b".into(), "eip-a".into()],
            proxy_protocol: v1::ProxyProtocol::V2.into(),
            health_check: Some(v1::HealthCheck {
                implied: true,
                protocol: v1::HealthCheckProtocol::Https.into(),
                port: 30_999,
                path: "/healthz".into(),
                interval_seconds: 1,
                timeout_seconds: 2,
                healthy_threshold: 3,
                unhealthy_threshold: 4,
            }),
        };
        assert_eq!(sent(options), expected);
        let unset = sent(LoadBalancerOptions::default());
        assert_eq!(unset, v1::LoadBalancerOptions::default());
    }
}
