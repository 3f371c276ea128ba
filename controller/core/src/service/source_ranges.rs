//! The source ranges of a load balancer, which a provider gets with the Service.

use ipnet::IpNet;

use super::{ServiceView, capability::ANNOTATION_SOURCE_RANGES, plan::Failure};
use crate::effects::Effects;
use crate::{cidr::Cidr, error_class::ErrorClass};

/// Why the ranges do not parse. Upstream's texts (H-1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ranges of the spec.
    #[error(
        "service.Spec.LoadBalancerSourceRanges: [{value}] is not valid. Expecting a list of IP \
         ranges. For example, 10.0.0.0/24. Error msg: invalid CIDR address: {invalid}"
    )]
    Spec {
        /// All of them.
        value: Box<str>,
        /// The first that is none.
        invalid: Box<str>,
    },
    /// The ranges of the annotation.
    #[error(
        "{ANNOTATION_SOURCE_RANGES}: {value} is not valid. Expecting a comma-separated list of \
         source IP ranges. For example, 10.0.0.0/24,192.168.2.0/24"
    )]
    Annotation {
        /// Its value.
        value: Box<str>,
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
        return parse(ranges).map_err(|invalid| Error::Spec {
            value: of_spec.join(" ").into(),
            invalid: invalid.into(),
        });
    }
    let annotation = service.annotations.get(ANNOTATION_SOURCE_RANGES);
    match annotation.map(str::trim) {
        None | Some("") => Ok(Vec::new()),
        Some(value) => parse(value.split(',')).map_err(|_| Error::Annotation {
            value: value.into(),
        }),
    }
}

/// All of them, or the first that is none.
fn parse<'a>(ranges: impl Iterator<Item = &'a str>) -> Result<Vec<IpNet>, &'a str> {
    let ranges = ranges.map(str::trim);
    let mut parsed = ranges
        .map(|range| Cidr::parse(range).map(IpNet::from).ok_or(range))
        .collect::<Result<Vec<_>, _>>()?;
    parsed.sort_unstable();
    parsed.dedup();
    Ok(parsed)
}

#[cfg(test)]
mod tests;
