//! The flags of the node-route loop, checked.

use crate::{
    cidr::{Cidr, ClusterCidrError, IpFamily, cluster_cidrs},
    ipam::Allocator,
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
    /// Length of a Node's prefix: a shorter one is refused. None where it is not known.
    pub node_prefix: Option<u8>,
}

/// `--node-cidr-mask-size`, `--node-cidr-mask-size-ipv4` and `--node-cidr-mask-size-ipv6`; 0 is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePrefixes {
    /// Of a single-stack cluster.
    pub any: i32,
    /// IPv4.
    pub ipv4: i32,
    /// IPv6.
    pub ipv6: i32,
}

impl NodePrefixes {
    /// The one of `range`; none where it is not set, or not a part of that range.
    fn of(self, range: Cidr) -> Option<u8> {
        let of_family = match range.family() {
            IpFamily::V4 => self.ipv4,
            IpFamily::V6 => self.ipv6,
        };
        let set = [of_family, self.any].into_iter().find(|size| *size != 0)?;
        let legal = range.prefix_len()..=range.family().bits();
        u8::try_from(set).ok().filter(|size| legal.contains(size))
    }
}

/// The ranges of `--cluster-cidr`, inside which routes are this cluster's. None: the loop
/// is skipped with [`WITHOUT_CLUSTER_CIDR`]. A Node's prefix is as long as `allocator` makes it, and where there is none as
/// the flags say.
pub fn route_ranges(
    cluster_cidr: &str,
    allocator: Option<&Allocator>,
    flags: NodePrefixes,
) -> Result<Option<Vec<RouteRange>>, ClusterCidrError> {
    let cidrs = match cluster_cidrs(cluster_cidr) {
        Err(ClusterCidrError::Empty) => return Ok(None),
        cidrs => cidrs?,
    };
    let ranges = cidrs.into_iter().map(|cidr| RouteRange {
        cidr,
        node_prefix: allocator
            .and_then(|allocator| allocator.node_prefix(cidr))
            .or_else(|| flags.of(cidr)),
    });
    Ok(Some(ranges.collect()))
}

#[cfg(test)]
mod tests {
    use super::{NodePrefixes, RouteRange, route_ranges};
    use crate::{cidr::Cidr, ipam::IpamOptions};

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    fn prefixes(cluster_cidr: &str, flags: NodePrefixes) -> Vec<Option<u8>> {
        let ranges = route_ranges(cluster_cidr, None, flags).unwrap().unwrap();
        ranges.iter().map(|range| range.node_prefix).collect()
    }

    ///
    #[test]
    fn without_a_cluster_cidr_the_loop_is_skipped() {
        let flags = NodePrefixes::default();
        assert_eq!(route_ranges("", None, flags), Ok(None));
        let range = RouteRange {
            cidr: cidr("10.244.0.0/16"),
            node_prefix: None,
        };
        assert_eq!(
            route_ranges("10.244.0.0/16", None, flags),
            Ok(Some(vec![range]))
        );
        for junk in ["junk", "10.0.0.0/8,11.0.0.0/8"] {
            assert!(route_ranges(junk, None, flags).is_err(), "{junk}");
        }
    }

    #[test]
    fn the_prefix_of_a_node_is_that_of_the_allocator_or_of_the_flags() {
        let both = "10.244.0.0/16,fd00::/48";
        let flags = NodePrefixes {
            any: 25,
            ..NodePrefixes::default()
        };
        assert_eq!(prefixes("10.244.0.0/16", flags), [Some(25)]);
        let flags = NodePrefixes {
            ipv4: 26,
            ipv6: 64,
            any: 0,
        };
        assert_eq!(prefixes(both, flags), [Some(26), Some(64)]);
        // No part of the range, or no prefix at all: it limits nothing.
        for illegal in [8, 33, -1] {
            let flags = NodePrefixes {
                ipv4: illegal,
                ..NodePrefixes::default()
            };
            assert_eq!(prefixes(both, flags), [None, None], "{illegal}");
        }
        let options = IpamOptions {
            allocator_type: "RangeAllocator",
            cluster_cidr: both,
            service_cidrs: "",
            mask_size: 0,
            mask_size_ipv4: 25,
            mask_size_ipv6: 0,
        };
        let allocator = options.check().unwrap();
        let ranges = route_ranges(both, Some(&allocator), NodePrefixes::default());
        let ranges = ranges.unwrap().unwrap();
        assert_eq!(ranges[0].node_prefix, Some(25));
        assert_eq!(ranges[1].node_prefix, Some(64));
    }
}
