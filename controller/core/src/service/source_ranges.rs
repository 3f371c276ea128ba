//! The source ranges of a load balancer, which a provider gets with the Service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::{ServiceView, capability::ANNOTATION_SOURCE_RANGES, effects::Effects, plan::Failure};
use crate::error_class::ErrorClass;

/// Why the ranges do not parse. Upstream's texts (H-1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Those of the spec.
    #[error(
        "service.Spec.LoadBalancerSourceRanges: [{given}] is not valid. Expecting a list of IP \
         ranges. For example, 10.0.0.0/24. Error msg: invalid CIDR address: {culprit}"
    )]
    Spec {
        /// All of them.
        given: Box<str>,
        /// The first that is none.
        culprit: Box<str>,
    },
    /// Those of the annotation.
    #[error(
        "{ANNOTATION_SOURCE_RANGES}: {given} is not valid. Expecting a comma-separated list of \
         source IP ranges. For example, 10.0.0.0/24,192.168.2.0/24"
    )]
    Annotation {
        /// Its value.
        given: Box<str>,
    },
}

impl Error {
    /// Decides the requeue: the Service waits for a change of its own.
    pub const fn class(&self) -> ErrorClass {
        ErrorClass::Invalid
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            class: error.class(),
            reason: "InvalidSourceRanges".into(),
            message: error.to_string().into(),
            effects: Effects::default(),
        }
    }
}

/// The ranges from which `service` may be reached, without their host bits, each once, sorted; empty:
/// from everywhere, for which upstream's helper says `0.0.0.0/0` (H-1). Those of the spec count, and
/// only without any there the annotation.
pub fn source_ranges(service: &ServiceView) -> Result<Vec<IpNet>, Error> {
    let of_spec = &service.spec.load_balancer_source_ranges;
    if !of_spec.is_empty() {
        let ranges = of_spec.iter().map(|range| &**range);
        return parse(ranges).map_err(|culprit| Error::Spec {
            given: of_spec.join(" ").into(),
            culprit: culprit.into(),
        });
    }
    let annotation = service.annotations.get(ANNOTATION_SOURCE_RANGES);
    match annotation.map(str::trim) {
        None | Some("") => Ok(Vec::new()),
        Some(given) => parse(given.split(',')).map_err(|_| Error::Annotation {
            given: given.into(),
        }),
    }
}

/// All of them, or the first that is none.
fn parse<'a>(ranges: impl Iterator<Item = &'a str>) -> Result<Vec<IpNet>, &'a str> {
    let ranges = ranges.map(str::trim);
    let mut parsed = ranges
        .map(|range| range_of(range).ok_or(range))
        .collect::<Result<Vec<_>, _>>()?;
    parsed.sort_unstable();
    parsed.dedup();
    Ok(parsed)
}

fn range_of(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    let address = if address.contains(':') {
        IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)
    } else {
        IpAddr::V4(sloppy_ipv4(address)?)
    };
    let prefix = u8::try_from(decimal(prefix)?).ok()?;
    IpNet::new(address, prefix).ok().map(|range| range.trunc())
}

/// H-2: leading zeros, which Rust refuses, and are no octal numbers.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(decimal(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Digits alone: Rust takes a sign too.
fn decimal(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
