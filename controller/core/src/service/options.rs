//! Options of a load balancer that mean the same with every provider: annotations of its Service, as far as a provider
//! serves them, and the controller's own defaults.
//!
//! The provider client calls [`LoadBalancerOptions::of`] before each call that sends a Service. An annotation below the
//! prefix that is no option, that the provider does not serve, or whose value cannot be read, is refused before any call;
//! the refusal names the annotation and what would be served.

use std::{fmt::Display, net::IpAddr};

use super::{Ingress, ServiceView, capability::Capability};
use crate::{fault::Excerpt, syntax::Complaint};

mod parse;
mod served;

pub use served::{ServedHealthChecks, ServedOptions};

/// Prefix of the annotations. A key below it that is no option is refused, since a typo must not make another load balancer
/// than its user wants.
pub(super) const PREFIX: &str = "outrigger.dev/load-balancer-";

const HOSTNAME: &str = "outrigger.dev/load-balancer-hostname";
const SCHEME: &str = "outrigger.dev/load-balancer-scheme";
const ADDRESSES: &str = "outrigger.dev/load-balancer-addresses";
const RESERVED_ADDRESSES: &str = "outrigger.dev/load-balancer-reserved-addresses";
const PROXY_PROTOCOL: &str = "outrigger.dev/load-balancer-proxy-protocol";
const HEALTH_CHECK_PROTOCOL: &str = "outrigger.dev/load-balancer-health-check-protocol";
const HEALTH_CHECK_PORT: &str = "outrigger.dev/load-balancer-health-check-port";
const HEALTH_CHECK_PATH: &str = "outrigger.dev/load-balancer-health-check-path";
const HEALTH_CHECK_INTERVAL: &str = "outrigger.dev/load-balancer-health-check-interval";
const HEALTH_CHECK_TIMEOUT: &str = "outrigger.dev/load-balancer-health-check-timeout";
const HEALTHY_THRESHOLD: &str = "outrigger.dev/load-balancer-health-check-healthy-threshold";
const UNHEALTHY_THRESHOLD: &str = "outrigger.dev/load-balancer-health-check-unhealthy-threshold";

/// The keys of all options.
const KEYS: [&str; 12] = [
    HOSTNAME,
    SCHEME,
    ADDRESSES,
    RESERVED_ADDRESSES,
    PROXY_PROTOCOL,
    HEALTH_CHECK_PROTOCOL,
    HEALTH_CHECK_PORT,
    HEALTH_CHECK_PATH,
    HEALTH_CHECK_INTERVAL,
    HEALTH_CHECK_TIMEOUT,
    HEALTHY_THRESHOLD,
    UNHEALTHY_THRESHOLD,
];

/// Prefix of the options of a health check.
const HEALTH_CHECK: &str = "outrigger.dev/load-balancer-health-check-";

/// Health check: a connection can be made.
pub const TCP: &str = "tcp";
/// Health check: a question is answered.
pub const HTTP: &str = "http";

/// Port at which kube-proxy serves `/healthz`.
const KUBE_PROXY_PORT: u32 = 10_256;

/// The options of one load balancer. Words are those of its annotations that the provider serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerOptions {
    /// Host name that the status shows in place of the addresses.
    pub hostname: Option<Box<str>>,
    /// From where it can be reached; none: the provider's default, as below.
    pub scheme: Option<&'static str>,
    /// Its addresses, at most one of a family.
    pub requested_addresses: Vec<IpAddr>,
    /// Addresses that were reserved in the cloud, by their names there.
    pub reserved_address_names: Vec<Box<str>>,
    /// Version of the PROXY protocol towards its targets.
    pub proxy_protocol: Option<&'static str>,
    /// How its targets are checked; none where the provider serves no health checks.
    pub health_check: Option<HealthCheck>,
}

/// A check of each target; an optional field that is none is left to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The user asked for none of it.
    pub implied: bool,
    /// How it is checked.
    pub protocol: &'static str,
    /// Port of the node.
    pub port: u32,
    /// Path of the question; empty with TCP.
    pub path: Box<str>,
    /// Seconds between two checks.
    pub interval_seconds: Option<u32>,
    /// Seconds until a check without an answer counts as failed.
    pub timeout_seconds: Option<u32>,
    /// Good checks in a row that make a target healthy.
    pub healthy_threshold: Option<u32>,
    /// Failed checks in a row that make it unhealthy.
    pub unhealthy_threshold: Option<u32>,
}

/// Options that are refused before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsRefusal {
    /// Reason of the condition.
    pub reason: &'static str,
    /// For people: the annotation, its value, and what the provider serves instead.
    pub message: String,
}

impl LoadBalancerOptions {
    /// The options of `service` for the provider of `capability`.
    ///
    /// # Errors
    /// The first annotation that is refused.
    pub fn of(service: &ServiceView, capability: &Capability) -> Result<Self, OptionsRefusal> {
        let annotations = OptionAnnotations {
            service,
            capability,
        };
        annotations.check_keys()?;
        let served = &capability.options;
        let scheme = |text: &str| parse::word(text, &served.schemes);
        let names = |text: &str| parse::names(text, served.max_reserved_address_names);
        let version = |text: &str| parse::word(text, &served.proxy_protocols);
        let reserved = annotations.read(RESERVED_ADDRESSES, names)?;
        let checks = served.health_check.as_ref();
        let health_check = checks.map(|checks| annotations.health_check(checks));
        Ok(Self {
            hostname: annotations.read(HOSTNAME, parse::hostname)?,
            scheme: annotations.read(SCHEME, scheme)?,
            requested_addresses: annotations.requested_addresses()?,
            reserved_address_names: reserved.unwrap_or_default(),
            proxy_protocol: annotations.read(PROXY_PROTOCOL, version)?,
            health_check: health_check.transpose()?,
        })
    }
}

/// The annotations of a Service, to be read as options of a provider.
struct OptionAnnotations<'a> {
    service: &'a ServiceView,
    capability: &'a Capability,
}

impl OptionAnnotations<'_> {
    /// Checks that each key below the prefix is an option that the provider serves.
    fn check_keys(&self) -> Result<(), OptionsRefusal> {
        let is_served = |key: &str| self.capability.options.values(key).is_some();
        let annotations = self.service.annotations.iter();
        let mut others = annotations.filter(|(key, _)| key.starts_with(PREFIX) && !is_served(key));
        let Some((key, value)) = others.next() else {
            return Ok(());
        };
        let complaint = if KEYS.contains(&key) {
            "is not served"
        } else {
            "is no option"
        };
        let names = KEYS.into_iter().filter(|key| is_served(key));
        let names: Vec<_> = names.filter_map(|key| key.strip_prefix(PREFIX)).collect();
        let served = format!("the options {}", names.join(", "));
        Err(self.refusal(annotation(key), value, complaint, &served))
    }

    /// The value of the option `key`, if the Service has it.
    fn read<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, Complaint>,
    ) -> Result<Option<T>, OptionsRefusal> {
        let Some(value) = self.service.annotations.get(key) else {
            return Ok(None);
        };
        parse(value).map(Some).map_err(|complaint| {
            let served = self.capability.options.values(key).unwrap_or_default();
            self.refusal(annotation(key), value, complaint, &served)
        })
    }

    /// The addresses of the annotation, or the one of the spec.
    fn requested_addresses(&self) -> Result<Vec<IpAddr>, OptionsRefusal> {
        let served = &self.capability.options;
        let most = served.max_requested_addresses;
        let addresses = self.read(ADDRESSES, |text| parse::addresses(text, most))?;
        let of_spec = &*self.service.spec.load_balancer_ip;
        if most == 0 || of_spec.is_empty() {
            return Ok(addresses.unwrap_or_default());
        }
        let ip = parse::address(of_spec);
        match (addresses, ip) {
            (None, Ok(ip)) => Ok(vec![ip]),
            (None, Err(complaint)) => {
                let values = served.values(ADDRESSES).unwrap_or_default();
                Err(self.refusal("spec.loadBalancerIP", of_spec, complaint, &values))
            }
            (Some(addresses), Ok(ip)) if addresses.contains(&ip) => Ok(addresses),
            (Some(_), _) => Err(OptionsRefusal {
                reason: "ConflictingOptions",
                message: format!(
                    "spec.loadBalancerIP={} is not among the addresses of the annotation {ADDRESSES}={}; name it there, \
                     or remove one of the two",
                    Excerpt::of(of_spec),
                    Excerpt::of(self.service.annotations.get(ADDRESSES).unwrap_or_default()),
                ),
            }),
        }
    }

    /// The user's health check; of what the user leaves open, the one by which kube-proxy says whether a node takes the
    /// Service's connections.
    fn health_check(&self, served: &ServedHealthChecks) -> Result<HealthCheck, OptionsRefusal> {
        let spec = &self.service.spec;
        let own_port = match u32::try_from(spec.health_check_node_port) {
            Ok(port) if port > 0 && &*spec.external_traffic_policy == "Local" => port,
            _ => KUBE_PROXY_PORT,
        };
        let protocol = |text: &str| parse::word(text, &served.protocols);
        let protocol = self.read(HEALTH_CHECK_PROTOCOL, protocol)?;
        let protocol = protocol.unwrap_or_else(|| served.default_protocol());
        let port = |text: &str| parse::number(text, Some(&(1..=65_535)));
        let port = self.read(HEALTH_CHECK_PORT, port)?.unwrap_or(own_port);
        let path = self.read(HEALTH_CHECK_PATH, |text| parse::path(text, protocol))?;
        let default_path = match protocol {
            TCP => "",
            _ if [own_port, KUBE_PROXY_PORT].contains(&port) => "/healthz",
            _ => "/",
        };
        let interval = |text: &str| parse::seconds(text, served.interval_seconds.as_ref());
        let timeout = |text: &str| parse::seconds(text, served.timeout_seconds.as_ref());
        let healthy = |text: &str| parse::number(text, served.healthy_threshold.as_ref());
        let unhealthy = |text: &str| parse::number(text, served.unhealthy_threshold.as_ref());
        let mut annotations = self.service.annotations.iter();
        Ok(HealthCheck {
            implied: !annotations.any(|(key, _)| key.starts_with(HEALTH_CHECK)),
            protocol,
            port,
            path: path.unwrap_or_else(|| default_path.into()),
            interval_seconds: self.read(HEALTH_CHECK_INTERVAL, interval)?,
            timeout_seconds: self.read(HEALTH_CHECK_TIMEOUT, timeout)?,
            healthy_threshold: self.read(HEALTHY_THRESHOLD, healthy)?,
            unhealthy_threshold: self.read(UNHEALTHY_THRESHOLD, unhealthy)?,
        })
    }

    fn refusal(
        &self,
        subject: impl Display,
        value: &str,
        complaint: Complaint,
        served: &str,
    ) -> OptionsRefusal {
        let (shown, provider) = (Excerpt::of(value), &self.capability.provider);
        OptionsRefusal {
            reason: "UnsupportedOptions",
            message: format!("{subject}={shown} {complaint}; provider {provider} serves {served}"),
        }
    }
}

fn annotation(key: &str) -> String {
    format!("the annotation {key}")
}

/// The status of `service` for the addresses `named` of its load balancer. The result is none where the present status
/// stays: the options are refused, or not kept in memory.
pub(super) fn status_ingress(
    service: &ServiceView,
    capability: &Capability,
    named: &[Ingress],
) -> Option<Vec<Ingress>> {
    if service.is_too_large {
        return None;
    }
    let options = LoadBalancerOptions::of(service, capability).ok()?;
    if let Some(hostname) = options.hostname {
        return Some(vec![Ingress {
            hostname,
            ..Ingress::default()
        }]);
    }
    let mut ingress = named.to_vec();
    if options.proxy_protocol.is_some() {
        // Otherwise kube-proxy sends connections past the load balancer, and so without the protocol's header.
        for entry in ingress.iter_mut().filter(|entry| !entry.ip.is_empty()) {
            entry.ip_mode = Some("Proxy".into());
        }
    }
    Some(ingress)
}

#[cfg(test)]
mod tests;
