//! The source ranges of a load balancer, which a provider gets with the Service.

use ipnet::IpNet;

use super::{ServiceView, capability::ANNOTATION_SOURCE_RANGES};
use crate::cidr::Cidr;

/// The ranges from which `service` may be reached, without their host bits, each once, sorted; empty:
/// from everywhere, for which upstream's helper says `0.0.0.0/0` (H-1). Those of the spec count, and
/// only without any there the annotation.
///
/// # Errors
/// Why they do not parse, in upstream's words (H-1).
pub fn source_ranges(service: &ServiceView) -> Result<Vec<IpNet>, String> {
    let of_spec = &service.spec.load_balancer_source_ranges;
    if !of_spec.is_empty() {
        let ranges = of_spec.iter().map(|range| &**range);
        return parse(ranges).map_err(|invalid| {
            format!(
                "service.Spec.LoadBalancerSourceRanges: [{}] is not valid. Expecting a list of IP \
                 ranges. For example, 10.0.0.0/24. Error msg: invalid CIDR address: {invalid}",
                of_spec.join(" ")
            )
        });
    }
    let annotation = service.annotations.get(ANNOTATION_SOURCE_RANGES);
    match annotation.map(str::trim) {
        None | Some("") => Ok(Vec::new()),
        Some(value) => parse(value.split(',')).map_err(|_| {
            format!(
                "{ANNOTATION_SOURCE_RANGES}: {value} is not valid. Expecting a comma-separated list of \
                 source IP ranges. For example, 10.0.0.0/24,192.168.2.0/24"
            )
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
