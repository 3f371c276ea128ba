//! Portable options of a load balancer, as this cloud serves them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use outrigger_provider_sdk::Error;
use outrigger_provider_sdk::v1::{
    HealthCheckCapability, HealthCheckProtocol, LoadBalancerOptions, LoadBalancerOptionsCapability,
    LoadBalancerScheme as Scheme, ProxyProtocol, UintRange,
};

use super::{Family, LoadBalancerRules};

/// All of them.
pub(crate) fn capability() -> LoadBalancerOptionsCapability {
    let range = |min, max| Some(UintRange { min, max });
    let (tcp, http) = (HealthCheckProtocol::Tcp, HealthCheckProtocol::Http);
    LoadBalancerOptionsCapability {
        schemes: numbers([Scheme::InternetFacing, Scheme::Internal]),
        max_requested_addresses: 2,
        max_reserved_address_names: 8,
        proxy_protocols: numbers([ProxyProtocol::V1, ProxyProtocol::V2]),
        health_check: Some(HealthCheckCapability {
            protocols: numbers([tcp, http, HealthCheckProtocol::Https]),
            interval_seconds: range(5, 300),
            timeout_seconds: range(2, 60),
            healthy_threshold: range(2, 10),
            unhealthy_threshold: range(2, 10),
        }),
        fixed: Vec::new(),
    }
}

fn numbers(values: impl IntoIterator<Item = impl Into<i32>>) -> Vec<i32> {
    values.into_iter().map(Into::into).collect()
}

/// The options that are not the cloud's defaults, by their names; requested addresses aside. `internal` is the word of the
/// mock's own annotation.
pub(super) fn kept(
    options: &LoadBalancerOptions,
    internal: Option<bool>,
) -> Result<BTreeMap<String, String>, Error> {
    let asks_internal = match options.scheme() {
        Scheme::Unspecified => None,
        scheme => Some(scheme == Scheme::Internal),
    };
    let both = asks_internal.zip(internal);
    if both.is_some_and(|(asks, is_annotated)| asks != is_annotated) {
        return Err(Error::conflicting_options(
            "the option scheme contradicts the annotation mock.example/internal; remove one of them",
        ));
    }
    let is_internal = asks_internal.or(internal) == Some(true);
    let scheme = if is_internal { "internal" } else { "" };
    let names = options.reserved_address_names.join(",");
    let version = word(options.proxy_protocol().as_str_name(), "PROXY_PROTOCOL_");
    let check = options.health_check.as_ref().map(|check| {
        let protocol = word(check.protocol().as_str_name(), "HEALTH_CHECK_PROTOCOL_");
        let (interval, timeout) = (check.interval_seconds, check.timeout_seconds);
        let (up, down) = (check.healthy_threshold, check.unhealthy_threshold);
        let (port, path) = (check.port, &check.path);
        format!("{protocol} {port}{path} {interval}s {timeout}s {up} up {down} down")
    });
    let all = [
        ("scheme", scheme.to_owned()),
        ("reserved-addresses", names),
        ("proxy-protocol", version),
        ("health-check", check.unwrap_or_default()),
    ];
    let set = all.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(set.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A value of an enum, without the prefix of its type; empty where it is unspecified.
fn word(name: &str, prefix: &str) -> String {
    let word = name.trim_start_matches(prefix).to_lowercase();
    word.replace("unspecified", "")
}

/// The addresses that the options ask for: each of a pool, and of a family that the load balancer has.
pub(super) fn requested(
    options: &LoadBalancerOptions,
    families: &[Family],
    rules: &LoadBalancerRules,
) -> Result<Vec<IpAddr>, Error> {
    let is_ours = |ip: &IpAddr| rules.pools.iter().any(|pool| pool.contains(ip));
    let address = |text: &String| {
        let ip = text.parse().ok().filter(is_ours);
        let ip = ip.ok_or_else(|| {
            Error::conflicting_resource(format!(
                "the address {text} that is asked for is in no pool of this cloud"
            ))
        })?;
        if families.contains(&Family::of(ip)) {
            return Ok(ip);
        }
        Err(Error::conflicting_options(format!(
            "the option addresses has {text}, and ipFamilies or the annotation \
             mock.example/address-mode leave no address of its family"
        )))
    };
    options.requested_addresses.iter().map(address).collect()
}
