//! The source ranges of a load balancer, which the provider client sends with the Service.
//!
//! They come from the spec, or without any there from the annotation. Ranges that do not parse refuse an Ensure before its
//! call, and are left out of a deletion.

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
mod tests {
    use proptest::prelude::*;

    use super::{ANNOTATION_SOURCE_RANGES, source_ranges};
    use crate::{fixture::load_balancer, service::ServiceView};

    fn service(spec: &[&str], annotation: Option<&str>) -> ServiceView {
        let mut service = load_balancer("web");
        service.spec.load_balancer_source_ranges =
            spec.iter().map(|range| (*range).into()).collect();
        let annotation = annotation.map(|value| (ANNOTATION_SOURCE_RANGES, value));
        service.annotations = annotation.into_iter().collect();
        service
    }

    fn ranges(spec: &[&str], annotation: Option<&str>) -> Vec<String> {
        let ranges = source_ranges(&service(spec, annotation)).unwrap();
        ranges.iter().map(ToString::to_string).collect()
    }

    /// H-1, H-2.
    #[test]
    fn the_spec_wins_and_ranges_are_canonical() {
        assert!(ranges(&[], None).is_empty());
        assert!(ranges(&[], Some("  ")).is_empty());
        assert_eq!(ranges(&["10.1.0.0/16"], Some("junk")), ["10.1.0.0/16"]);
        assert_eq!(
            ranges(&[], Some(" 10.0.0.0/8 , 192.168.2.0/24")),
            ["10.0.0.0/8", "192.168.2.0/24"]
        );
        // Host bits go, what is twice counts once, the order means nothing.
        let many = [
            "10.2.3.4/16",
            " 10.1.0.0/16 ",
            "10.2.0.0/16",
            "2001:DB8::1/64",
        ];
        assert_eq!(
            ranges(&many, None),
            ["10.1.0.0/16", "10.2.0.0/16", "2001:db8::/64"]
        );
        assert_eq!(ranges(&["010.001.000.010/08"], None), ["10.0.0.0/8"]);
        assert_eq!(ranges(&["0.0.0.0/0"], None), ["0.0.0.0/0"]);
    }

    /// H-1.
    #[test]
    fn the_words_about_what_does_not_parse() {
        let error =
            |spec: &[&str], annotation| source_ranges(&service(spec, annotation)).unwrap_err();
        assert_eq!(
            error(&["10.0.0.0/8", "10.0.0.0/33"], None),
            "service.Spec.LoadBalancerSourceRanges: [10.0.0.0/8 10.0.0.0/33] is not valid. Expecting \
         a list of IP ranges. For example, 10.0.0.0/24. Error msg: invalid CIDR address: \
         10.0.0.0/33"
        );
        assert_eq!(
            error(&[], Some(" 10.0.0.0/8,x ")),
            "service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8,x is not valid. \
         Expecting a comma-separated list of source IP ranges. For example, \
         10.0.0.0/24,192.168.2.0/24"
        );
        for junk in [
            "",
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0.0/8",
            "10.0.0.256/8",
            "10.0.0.0/+8",
            "+10.0.0.0/8",
            "10.0.0.0/",
            "/8",
            "::/129",
            "fe80::1%eth0/64",
            "10.0.0.0/8/8",
            "10.0.0.99999999999/8",
        ] {
            error(&[junk], None);
        }
        error(&[], Some("10.0.0.0/8,"));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[0-9a-f:./ ,+%]{0,24}") {
            if let Ok(ranges) = source_ranges(&service(&[], Some(&text))) {
                let again: Vec<_> = ranges.iter().map(ToString::to_string).collect();
                let again: Vec<_> = again.iter().map(String::as_str).collect();
                prop_assert_eq!(source_ranges(&service(&again, None)).unwrap(), ranges);
            }
        }
    }
}
