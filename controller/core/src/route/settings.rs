//! The flags of the node-route loop, checked: the ranges inside which routes are this cluster's.

use crate::{
    cidr::{Cidr, IpFamily},
    ipam::{Allocator, MaskSizes},
};

/// The warning where `--cluster-cidr` is empty.
pub const WITHOUT_CLUSTER_CIDR: &str = "node-route-controller is skipped, and no Node gets a \
    route: --cluster-cidr is empty; name the range of the Pods, or set \
    --configure-cloud-routes=false";

/// A range of `--cluster-cidr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRange {
    /// The range.
    pub cidr: Cidr,
    /// Length of a Node's prefix: a shorter one is refused. Absent where it is not known.
    pub node_prefix: Option<u8>,
}

/// The ranges of `--cluster-cidr`, inside which routes are this cluster's. A Node's prefix is as long as
/// `allocator` makes it, and where there is none as the flags say.
pub fn route_ranges(
    cluster_cidrs: &[Cidr],
    allocator: Option<&Allocator>,
    flags: MaskSizes,
) -> Vec<RouteRange> {
    let ranges = cluster_cidrs.iter().map(|&cidr| RouteRange {
        cidr,
        node_prefix: allocator
            .and_then(|allocator| allocator.node_prefix(cidr))
            .or_else(|| node_prefix(flags, cidr)),
    });
    ranges.collect()
}

/// The prefix that the flags ask for in `range`; none where it is not set, or not a part of that range.
fn node_prefix(flags: MaskSizes, range: Cidr) -> Option<u8> {
    let of_family = match range.family() {
        IpFamily::V4 => flags.ipv4,
        IpFamily::V6 => flags.ipv6,
    };
    let set = [of_family, flags.any].into_iter().find(|size| *size != 0)?;
    let legal = range.prefix_len()..=range.family().bits();
    u8::try_from(set).ok().filter(|size| legal.contains(size))
}

#[cfg(test)]
mod tests {
    use super::{MaskSizes, RouteRange, route_ranges};
    use crate::{cidr::cidr_list, ipam::IpamOptions};

    fn prefixes(cluster_cidr: &str, flags: MaskSizes) -> Vec<Option<u8>> {
        let ranges = route_ranges(&cidr_list(cluster_cidr).unwrap(), None, flags);
        ranges.iter().map(|range| range.node_prefix).collect()
    }

    ///
    #[test]
    fn each_cluster_cidr_is_a_range() {
        let flags = MaskSizes::default();
        assert_eq!(route_ranges(&[], None, flags), []);
        let cidrs = cidr_list("10.244.0.0/16").unwrap();
        let range = RouteRange {
            cidr: cidrs[0],
            node_prefix: None,
        };
        assert_eq!(route_ranges(&cidrs, None, flags), [range]);
    }

    #[test]
    fn the_prefix_of_a_node_is_that_of_the_allocator_or_of_the_flags() {
        let both = "10.244.0.0/16,fd00::/48";
        let flags = MaskSizes {
            any: 25,
            ..MaskSizes::default()
        };
        assert_eq!(prefixes("10.244.0.0/16", flags), [Some(25)]);
        let flags = MaskSizes {
            ipv4: 26,
            ipv6: 64,
            any: 0,
        };
        assert_eq!(prefixes(both, flags), [Some(26), Some(64)]);
        // No part of the range, or no prefix at all: it limits nothing.
        for illegal in [8, 33, -1] {
            let flags = MaskSizes {
                ipv4: illegal,
                ..MaskSizes::default()
            };
            assert_eq!(prefixes(both, flags), [None, None], "{illegal}");
        }
        let flags = MaskSizes {
            ipv4: 25,
            ..MaskSizes::default()
        };
        let cidrs = cidr_list(both).unwrap();
        let options = IpamOptions {
            allocator_type: "RangeAllocator",
            cluster_cidrs: &cidrs,
            service_cidrs: &[],
            mask_sizes: flags,
        };
        let allocator = options.check().unwrap();
        let ranges = route_ranges(&cidrs, Some(&allocator), MaskSizes::default());
        assert_eq!(ranges[0].node_prefix, Some(25));
        assert_eq!(ranges[1].node_prefix, Some(64));
    }
}
