//! Blocks of addresses for Pods, one of each range for an instance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cidr::Cidr;

/// A range that is cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidrRange {
    range: IpNet,
    prefix: u8,
}

impl PodCidrRange {
    /// A range, and the prefix length of each block.
    pub fn new(range: Cidr, prefix: u8) -> Result<Self, String> {
        let network = range.network().0;
        if (network.prefix_len()..=network.max_prefix_len()).contains(&prefix) {
            let range = network;
            return Ok(Self { range, prefix });
        }
        let (least, most) = (network.prefix_len(), network.max_prefix_len());
        Err(format!(
            "{range} has no blocks with a mask size of {prefix}; use {least} to {most}"
        ))
    }

    /// How many blocks there are.
    fn len(self) -> u128 {
        let bits = u32::from(self.prefix - self.range.prefix_len());
        1_u128.checked_shl(bits).unwrap_or(u128::MAX)
    }

    fn block(self, index: u128) -> Option<Cidr> {
        let host_bits = u32::from(self.range.max_prefix_len() - self.prefix);
        let offset = index.checked_shl(host_bits).unwrap_or(0);
        let address: IpAddr = match self.range.network() {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | offset).into(),
        };
        IpNet::new(address, self.prefix).ok().map(Cidr)
    }

    /// The first block that is free, from one on that follows from `hash`; none: all are allocated.
    pub(super) fn allocate(self, hash: u64, is_taken: impl Fn(Cidr) -> bool) -> Option<Cidr> {
        let (len, start) = (self.len(), u128::from(hash));
        let mut blocks = (0..len).filter_map(|step| self.block((start % len + step) % len));
        blocks.find(|block| !is_taken(*block))
    }
}

#[cfg(test)]
mod tests;
