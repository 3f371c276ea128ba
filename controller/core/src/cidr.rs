//! CIDRs in canonical form: two that mean the same addresses are equal, however they were written.

use std::{
    fmt, iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

mod list;
mod map;

pub use list::cidr_list;
pub(crate) use list::one_of_each_family;
pub(crate) use map::CidrMap;

/// Bits of an IPv6 address in front of the IPv4 address that is mapped into it.
const MAPPED: u8 = 96;

/// A CIDR without host bits. Two of them are disjoint, equal, or one contains the other.
///
/// The order is that of the addresses, a CIDR before those that it contains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr(IpNet);

/// Family of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Length of its addresses in bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl Cidr {
    /// Reads `text` as Go's `ParseCIDRSloppy` does: host bits are masked, leading zeros of an IPv4
    /// octet mean nothing (H-2), and an IPv4 range that is mapped into IPv6 is the IPv4 range.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix_len) = text.split_once('/')?;
        let prefix_len = u8::try_from(decimal(prefix_len)?).ok()?;
        if !address.contains(':') {
            return Self::of(sloppy_ipv4(address)?.into(), prefix_len);
        }
        let address: Ipv6Addr = address.parse().ok()?;
        match (address.to_ipv4_mapped(), prefix_len.checked_sub(MAPPED)) {
            (Some(address), Some(prefix_len)) => Self::of(address.into(), prefix_len),
            _ => Self::of(address.into(), prefix_len),
        }
    }

    fn of(address: IpAddr, prefix_len: u8) -> Option<Self> {
        let range = IpNet::new(address, prefix_len).ok()?;
        Some(Self(range.trunc()))
    }

    /// The CIDR of `family` that begins at the address with the number `first`; bits that are none of
    /// its prefix are masked.
    pub fn from_bits(family: IpFamily, first: u128, prefix_len: u8) -> Option<Self> {
        let address = match family {
            IpFamily::V4 => Ipv4Addr::from_bits(u32::try_from(first).ok()?).into(),
            IpFamily::V6 => Ipv6Addr::from_bits(first).into(),
        };
        Self::of(address, prefix_len)
    }

    /// Number of the first address.
    pub fn first_bits(self) -> u128 {
        match self.0.network() {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Number of the last address.
    pub fn last_bits(self) -> u128 {
        match self.0.broadcast() {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Family of its addresses.
    pub const fn family(self) -> IpFamily {
        match self.0 {
            IpNet::V4(_) => IpFamily::V4,
            IpNet::V6(_) => IpFamily::V6,
        }
    }

    /// Length of its prefix in bits.
    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    /// Returns true if all addresses of `other` are among its own.
    pub fn contains(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Returns true if `ip` is among its addresses.
    pub fn contains_ip(self, ip: IpAddr) -> bool {
        self.0.contains(&ip)
    }

    /// Returns true if the two have an address in common.
    #[cfg(test)]
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The CIDRs that contain it, except itself, the smallest first.
    pub fn supernets(self) -> impl Iterator<Item = Self> {
        iter::successors(self.0.supernet(), IpNet::supernet).map(Self)
    }

    /// The place of it and of all CIDRs that it contains in their order, which is that of a
    /// `BTreeMap` with CIDRs as keys.
    pub fn span(self) -> RangeInclusive<Self> {
        let last = match self.0 {
            IpNet::V4(range) => Ipv4Net::from(range.broadcast()).into(),
            IpNet::V6(range) => Ipv6Net::from(range.broadcast()).into(),
        };
        self..=Self(last)
    }
}

impl From<Cidr> for IpNet {
    fn from(cidr: Cidr) -> Self {
        cidr.0
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
