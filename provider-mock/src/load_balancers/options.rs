//! Portable options of a load balancer, as this cloud serves them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use outrigger_provider_sdk::Error;
use outrigger_provider_sdk::v1::{
    HealthCheckCapability, HealthCheckProtocol, LoadBalancerOption, LoadBalancerOptions,
    LoadBalancerOptionsCapability, LoadBalancerScheme as Scheme, ProxyProtocol, UintRange,
};

use super::{Family, LoadBalancer, LoadBalancerRules, LoadBalancerSpec};

/// All of them. An option of `fixed` cannot be changed later.
pub(crate) fn capability(fixed: &[LoadBalancerOption]) -> LoadBalancerOptionsCapability {
    let range = |min, max| Some(UintRange { min, max });
    let protocols = [
        HealthCheckProtocol::Tcp,
        HealthCheckProtocol::Http,
        HealthCheckProtocol::Https,
    ];
    LoadBalancerOptionsCapability {
        schemes: [Scheme::InternetFacing, Scheme::Internal]
            .map(i32::from)
            .to_vec(),
        max_requested_addresses: 2,
        max_reserved_address_names: 8,
        proxy_protocols: [ProxyProtocol::V1, ProxyProtocol::V2]
            .map(i32::from)
            .to_vec(),
        health_check: Some(HealthCheckCapability {
            protocols: protocols.map(i32::from).to_vec(),
            interval_seconds: range(5, 300),
            timeout_seconds: range(2, 60),
            healthy_threshold: range(2, 10),
            unhealthy_threshold: range(2, 10),
        }),
        fixed: fixed.iter().map(|option| i32::from(*option)).collect(),
    }
}

/// An option by its name in the contract, such as `proxy-protocol`.
pub(crate) fn named(name: &str) -> Result<LoadBalancerOption, &'static str> {
    let name = format!("{PREFIX}{}", name.to_uppercase().replace('-', "_"));
    match LoadBalancerOption::from_str_name(&name) {
        None | Some(LoadBalancerOption::Unspecified) => Err(
            "it is no option; use scheme, requested-addresses, reserved-address-names, \
             proxy-protocol or health-check",
        ),
        Some(option) => Ok(option),
    }
}

const PREFIX: &str = "LOAD_BALANCER_OPTION_";

/// The options that are not the cloud's defaults, by the names of their annotations; requested addresses aside.
/// `internal` is the word of the mock's own annotation.
pub(super) fn kept(
    options: LoadBalancerOptions,
    internal: Option<bool>,
) -> Result<BTreeMap<String, String>, Error> {
    let asks_internal = match options.scheme() {
        Scheme::Unspecified => None,
        scheme => Some(scheme == Scheme::Internal),
    };
    if let (Some(option), Some(own)) = (asks_internal, internal)
        && option != own
    {
        let scheme = options.scheme().as_str_name();
        return Err(Error::conflicting_options(format!(
            "the option scheme is {}, and the annotation mock.example/internal {own}; remove one \
             of them",
            word(scheme, "LOAD_BALANCER_SCHEME_").replace('_', "-")
        )));
    }
    let is_internal = asks_internal.or(internal) == Some(true);
    let proxy_protocol = options.proxy_protocol().as_str_name();
    let check = options.health_check.unwrap_or_default();
    let check_protocol = check.protocol().as_str_name();
    let texts = [
        ("scheme", if is_internal { "internal" } else { "" }.into()),
        (
            "reserved-addresses",
            options.reserved_address_names.join(","),
        ),
        ("proxy-protocol", word(proxy_protocol, "PROXY_PROTOCOL_")),
        (
            "health-check-protocol",
            word(check_protocol, "HEALTH_CHECK_PROTOCOL_"),
        ),
        ("health-check-path", check.path),
    ];
    let texts = texts.map(|(name, value)| (name.to_owned(), value));
    let numbers = [
        ("port", check.port),
        ("interval", check.interval_seconds),
        ("timeout", check.timeout_seconds),
        ("healthy-threshold", check.healthy_threshold),
        ("unhealthy-threshold", check.unhealthy_threshold),
    ];
    let numbers = numbers.into_iter().filter(|(_, value)| *value > 0);
    let numbers = numbers.map(|(name, value)| (format!("health-check-{name}"), value.to_string()));
    let set = texts.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(set.chain(numbers).collect())
}

/// A value of an enum, without the prefix of its type; empty where it is unspecified.
fn word(name: &str, prefix: &str) -> String {
    let word = name.trim_start_matches(prefix);
    if word == "UNSPECIFIED" {
        return String::new();
    }
    word.to_lowercase()
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

/// Refuses a change of an option that a living load balancer keeps.
pub(crate) fn check_fixed(
    fixed: &[LoadBalancerOption],
    spec: &LoadBalancerSpec,
    existing: &LoadBalancer,
) -> Result<(), Error> {
    let is_changed = |option: &&LoadBalancerOption| {
        let name = match option {
            LoadBalancerOption::Unspecified => return false,
            LoadBalancerOption::RequestedAddresses => {
                let mut requested = spec.requested.iter();
                return requested.any(|ip| !existing.addresses.contains(ip));
            }
            LoadBalancerOption::Scheme => "scheme",
            LoadBalancerOption::ReservedAddressNames => "reserved-addresses",
            LoadBalancerOption::ProxyProtocol => "proxy-protocol",
            LoadBalancerOption::HealthCheck => "health-check",
        };
        let is_of = |(key, _): &(&String, &String)| key.starts_with(name);
        let before = existing.options.iter().filter(is_of);
        !spec.options.iter().filter(is_of).eq(before)
    };
    match fixed.iter().find(is_changed) {
        None => Ok(()),
        Some(option) => Err(Error::unsupported_feature(format!(
            "the {} of load balancer {} cannot be changed; make the Service again",
            word(option.as_str_name(), PREFIX).replace('_', " "),
            existing.id
        ))),
    }
}
