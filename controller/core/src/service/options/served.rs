//! The options that a provider serves, as its handshake declares them.

use std::ops::RangeInclusive;

use super::{
    ADDRESSES, HEALTH_CHECK_INTERVAL, HEALTH_CHECK_PATH, HEALTH_CHECK_PORT, HEALTH_CHECK_PROTOCOL,
    HEALTH_CHECK_TIMEOUT, HEALTHY_THRESHOLD, HOSTNAME, HTTP, PROXY_PROTOCOL, RESERVED_ADDRESSES,
    SCHEME, TCP, UNHEALTHY_THRESHOLD,
};

/// The options that a provider declares; by default only the controller's own one is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedOptions {
    /// Schemes that can be asked for: `internet-facing`, `internal`.
    pub schemes: Box<[&'static str]>,
    /// Requested addresses of one load balancer; 0: they are not served.
    pub max_requested_addresses: usize,
    /// Names of reserved addresses of one load balancer; 0: they are not served.
    pub max_reserved_address_names: usize,
    /// Versions that can be asked for: `v1`, `v2`.
    pub proxy_protocols: Box<[&'static str]>,
    /// Health checks; none: they cannot be asked for.
    pub health_check: Option<ServedHealthChecks>,
}

/// The health checks that a provider serves; a field without range cannot be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedHealthChecks {
    /// `tcp`, `http`, `https`; at least one, in the order of the declaration.
    pub protocols: Box<[&'static str]>,
    /// See [`super::HealthCheck::interval_seconds`].
    pub interval_seconds: Option<RangeInclusive<u32>>,
    /// See [`super::HealthCheck::timeout_seconds`].
    pub timeout_seconds: Option<RangeInclusive<u32>>,
    /// See [`super::HealthCheck::healthy_threshold`].
    pub healthy_threshold: Option<RangeInclusive<u32>>,
    /// See [`super::HealthCheck::unhealthy_threshold`].
    pub unhealthy_threshold: Option<RangeInclusive<u32>>,
}

impl ServedOptions {
    /// The values of the option `key` that can be asked for, in words; none where the option is not served.
    pub(super) fn values(&self, key: &str) -> Option<String> {
        let checks = || self.health_check.as_ref();
        match key {
            HOSTNAME => Some("a DNS name in lower case".to_owned()),
            SCHEME => words(&self.schemes),
            ADDRESSES => list("IP addresses", self.max_requested_addresses),
            RESERVED_ADDRESSES => list("names", self.max_reserved_address_names),
            PROXY_PROTOCOL => words(&self.proxy_protocols),
            HEALTH_CHECK_PROTOCOL => words(&checks()?.protocols),
            HEALTH_CHECK_PORT => checks().map(|_| "1 to 65535".to_owned()),
            HEALTH_CHECK_PATH => {
                let has_path = checks()?.protocols.iter().any(|word| *word != TCP);
                has_path.then(|| "a path with http and https".to_owned())
            }
            HEALTH_CHECK_INTERVAL => range(checks()?.interval_seconds.as_ref(), "s"),
            HEALTH_CHECK_TIMEOUT => range(checks()?.timeout_seconds.as_ref(), "s"),
            HEALTHY_THRESHOLD => range(checks()?.healthy_threshold.as_ref(), ""),
            UNHEALTHY_THRESHOLD => range(checks()?.unhealthy_threshold.as_ref(), ""),
            _ => None,
        }
    }
}

impl ServedHealthChecks {
    /// The protocol where none is asked for: HTTP, which kube-proxy answers, or else the first.
    pub(super) fn default_protocol(&self) -> &'static str {
        let first = self.protocols.first().copied();
        let has_http = self.protocols.contains(&HTTP);
        first.filter(|_| !has_http).unwrap_or(HTTP)
    }
}

fn words(words: &[&str]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

fn list(what: &str, most: usize) -> Option<String> {
    (most > 0).then(|| format!("{what}, at most {most}"))
}

fn range(range: Option<&RangeInclusive<u32>>, unit: &str) -> Option<String> {
    range.map(|range| format!("{}{unit} to {}{unit}", range.start(), range.end()))
}
