//! The flags of the node-ipam loop, checked before the process starts.
//!
//! The binary calls [`IpamOptions::check`] with the flags as they were given. Errors begin with upstream's text, and say
//! which flag to change; flags that pass the check never fail later.

use super::{Allocator, pool::Pool};
use crate::{
    cidr::{Cidr, IpFamily},
    text,
};

/// Bits between an IPv6 cluster CIDR and a Node's CIDR (I-6).
const MAX_IPV6_BITS: u8 = 16;

/// The flags as they were given.
#[derive(Clone, Copy, Debug)]
pub struct IpamOptions<'a> {
    /// `--cidr-allocator-type`.
    pub allocator_type: &'a str,
    /// `--cluster-cidr`: none, one, or one of each family, in the order given, which counts (I-8).
    pub cluster_cidrs: &'a [Cidr],
    /// `--service-cluster-ip-range`: none, one, or one of each family.
    pub service_cidrs: &'a [Cidr],
    /// The length of a Node's CIDR.
    pub mask_sizes: MaskSizes,
}

/// `--node-cidr-mask-size`, `--node-cidr-mask-size-ipv4` and `--node-cidr-mask-size-ipv6`; 0 is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskSizes {
    /// In a single-stack cluster.
    pub any: i32,
    /// IPv4.
    pub ipv4: i32,
    /// IPv6.
    pub ipv6: i32,
}

/// A flag for the length of a prefix, and its value if it is set.
type MaskSize = (&'static str, Option<i32>);

impl IpamOptions<'_> {
    /// An allocator that knows of no Node: each lease term begins with a copy of it.
    ///
    /// # Errors
    /// Flags with which no Node can get a Pod CIDR: upstream's text, and what to do.
    pub fn check(&self) -> Result<Allocator, String> {
        match self.allocator_type {
            "RangeAllocator" => self.pools().map(Allocator::from_pools),
            "CloudAllocator" => Ok(Allocator::from_provider()),
            // I-20.
            other => Err(format!(
                "invalid CIDR allocator type: {}: --cidr-allocator-type is RangeAllocator or CloudAllocator",
                text::message(other)
            )),
        }
    }

    fn pools(&self) -> Result<Vec<Pool>, String> {
        let (ranges, services) = (self.cluster_cidrs, self.service_cidrs);
        if ranges.is_empty() {
            // I-3.
            return Err(
                "invalid CIDR[0]: <nil> (invalid CIDR address: ): --cluster-cidr is empty; name the range \
                 of the Pods, such as 10.244.0.0/16"
                    .to_owned(),
            );
        }
        let families: Vec<_> = ranges.iter().map(|range| range.family()).collect();
        let (ipv4, ipv6) = self.mask_sizes(&families)?;
        let pools = ranges.iter().map(|&range| match range.family() {
            IpFamily::V4 => pool(range, prefix_len(range, ipv4, 24)?, ipv4.0, services),
            IpFamily::V6 => pool(range, prefix_len(range, ipv6, 64)?, ipv6.0, services),
        });
        pools.collect()
    }

    /// The flag that counts for each family (I-5).
    fn mask_sizes(&self, families: &[IpFamily]) -> Result<(MaskSize, MaskSize), String> {
        let set = |size: i32| Some(size).filter(|size| *size != 0);
        let any = ("--node-cidr-mask-size", set(self.mask_sizes.any));
        let ipv4 = ("--node-cidr-mask-size-ipv4", set(self.mask_sizes.ipv4));
        let ipv6 = ("--node-cidr-mask-size-ipv6", set(self.mask_sizes.ipv6));
        let other_family = |(flag, _): MaskSize, cluster: IpFamily| {
            Err(format!(
                "usage of {flag} is not allowed for a single-stack {cluster} cluster: unset it, or name a \
                 CIDR of the other IP family in --cluster-cidr too"
            ))
        };
        match (families, any.1, ipv4.1, ipv6.1) {
            ([_, _, ..], Some(_), _, _) => Err(
                "usage of --node-cidr-mask-size is not allowed with dual-stack clusters: use \
                 --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"
                    .to_owned(),
            ),
            (_, Some(_), Some(_), _) | (_, Some(_), _, Some(_)) => Err(
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if \
                 --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily \
                 specific flags"
                    .to_owned(),
            ),
            ([IpFamily::V6], _, Some(_), _) => other_family(ipv4, IpFamily::V6),
            ([IpFamily::V4], _, _, Some(_)) => other_family(ipv6, IpFamily::V4),
            ([_], None, None, None) | (_, Some(_), _, _) => Ok((any, any)),
            _ => Ok((ipv4, ipv6)),
        }
    }
}

fn prefix_len(range: Cidr, (flag, size): MaskSize, default: u8) -> Result<u8, String> {
    let most = range.family().bits();
    let Some(size) = size else {
        return Ok(default);
    };
    let legal = u8::try_from(size).ok().filter(|size| *size <= most);
    legal.ok_or_else(|| format!("{flag} must be between 0 and {most}, but got {size}"))
}

/// The pool of one cluster CIDR (I-6).
fn pool(range: Cidr, size: u8, flag: &'static str, services: &[Cidr]) -> Result<Pool, String> {
    let shortest = range.prefix_len();
    let Some(bits) = size.checked_sub(shortest) else {
        return Err(format!(
            "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal \
             to --node-cidr-mask-size configured for CIDR family: {range} has no room for a /{size}; \
             set {flag} to {shortest} or more, or name a larger range"
        ));
    };
    if range.family() == IpFamily::V6 && bits > MAX_IPV6_BITS {
        return Err(format!(
            "New CIDR set failed; the node CIDR size is too big: {range} has more than 65536 CIDRs of \
             /{size}; set {flag} to {longest} or less, or name a smaller range in --cluster-cidr",
            longest = shortest + MAX_IPV6_BITS
        ));
    }
    Pool::new(range, size, services).ok_or_else(|| {
        format!(
            "--service-cluster-ip-range leaves no CIDR of {range} in --cluster-cidr to Nodes; name \
             ranges without a common address"
        )
    })
}

#[cfg(test)]
mod tests;
