//! CIDRs in canonical form: two that mean the same addresses are equal, however they were written.
//!
//! The loops node-ipam and node-route compare, sort and cut CIDRs that users, kubelets and clouds have written.
//! [`Cidr::parse`] reads what Kubernetes reads, host bits and leading zeros included; [`cidr_list`] reads a flag. A text
//! that is no CIDR is `None` or an error, never a guess.
//!
//! ```
//! use outrigger_core::cidr::{Cidr, cidr_list};
//!
//! let node = Cidr::parse("10.244.1.7/24").ok_or("no CIDR")?;
//! assert_eq!(node.to_string(), "10.244.1.0/24");
//! let cluster = cidr_list("10.244.0.0/16,fd00::/48")?;
//! assert!(cluster[0].contains(node) && !cluster[1].contains(node));
//! assert!(cidr_list("10.244.0.0/16,10.245.0.0/16").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fmt, iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::text;

mod map;

pub(crate) use map::CidrMap;

/// Bytes of a text in an error.
const SHOWN: usize = 80;

/// Bits of an IPv6 address in front of the IPv4 address that is mapped into it.
const MAPPED: u8 = 96;

/// A CIDR without host bits (Q-12). Two of them are disjoint, equal, or one contains the other.
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

/// The CIDRs of a flag: none, one, or one of each family.
///
/// # Errors
/// The defect of the list, without the flag that it stands in.
pub fn cidr_list(text: &str) -> Result<Vec<Cidr>, String> {
    let is_empty = text.trim().is_empty();
    let items = text.split(',').map(str::trim);
    one_of_each_family(items.filter(|_| !is_empty))
}

/// `items` as CIDRs: none, one, or one of each family.
pub(crate) fn one_of_each_family<'a>(
    items: impl Iterator<Item = &'a str>,
) -> Result<Vec<Cidr>, String> {
    let cidrs = items
        .map(|item| {
            Cidr::parse(item).ok_or_else(|| format!("{:?} is no CIDR", text::cut(item, SHOWN)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_, _, _, ..] => Err(format!(
            "{} CIDRs are more than one for each IP family",
            cidrs.len()
        )),
        [first, second] if first.family() == second.family() => {
            let family = first.family();
            Err(format!("{first} and {second} are both {family}"))
        }
        _ => Ok(cidrs),
    }
}

/// H-2: leading zeros, which Rust refuses, and are no octal numbers.
pub(crate) fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
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
mod tests {
    use proptest::prelude::*;

    use super::{Cidr, IpFamily, cidr_list};

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    /// Q-12, H-2.
    #[test]
    fn spellings_of_one_range_are_equal() {
        for (text, canonical) in [
            ("10.244.1.0/24", "10.244.1.0/24"),
            ("10.244.1.77/24", "10.244.1.0/24"),
            ("010.244.001.000/024", "10.244.1.0/24"),
            ("255.255.255.255/0", "0.0.0.0/0"),
            ("10.0.0.1/32", "10.0.0.1/32"),
            ("2001:DB8::/64", "2001:db8::/64"),
            ("2001:db8:0:0:1::/64", "2001:db8::/64"),
            ("2001:0db8::/64", "2001:db8::/64"),
            ("::/0", "::/0"),
            ("::1/128", "::1/128"),
            // Go prints them so: an IPv4 range, unless the prefix ends before the IPv4 address.
            ("::ffff:10.1.2.3/112", "10.1.0.0/16"),
            ("::ffff:a01:203/96", "0.0.0.0/0"),
            ("::ffff:10.1.2.3/90", "::ffc0:0:0/90"),
            ("::ffff:10.1.2.3/80", "::/80"),
        ] {
            let parsed = cidr(text);
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(format!("{parsed:?}"), canonical);
            assert_eq!(parsed, cidr(canonical), "{text}");
        }
        for junk in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0.0/8",
            "10.0.0.256/8",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            " 10.0.0.0/8",
            "+10.0.0.0/8",
            "10.0.0.0/99999999999",
            "::/129",
            "::ffff:10.0.0.0/129",
            "fe80::1%eth0/64",
            "None",
        ] {
            assert_eq!(Cidr::parse(junk), None, "{junk:?}");
        }
    }

    /// R-25.
    #[test]
    fn ranges_are_disjoint_or_one_contains_the_other() {
        for (one, other, contains, contained) in [
            ("10.244.0.0/16", "10.244.1.0/24", true, false),
            ("10.244.0.0/16", "10.244.0.0/16", true, true),
            ("10.244.0.0/16", "10.0.0.0/8", false, true),
            ("10.244.0.0/16", "10.245.0.0/24", false, false),
            ("0.0.0.0/0", "::/0", false, false),
            ("fd00::/48", "fd00:0:0:7::/64", true, false),
        ] {
            let (one, other) = (cidr(one), cidr(other));
            assert_eq!(one.contains(other), contains, "{one} {other}");
            assert_eq!(other.contains(one), contained, "{one} {other}");
            assert_eq!(one.overlaps(other), contains || contained);
        }
        assert_eq!(cidr("::/0").family(), IpFamily::V6);
        let supernets: Vec<_> = cidr("192.168.0.0/3").supernets().collect();
        assert_eq!(
            supernets,
            ["192.0.0.0/2", "128.0.0.0/1", "0.0.0.0/0"].map(cidr)
        );
    }

    /// I-3, R-3.
    #[test]
    fn a_flag_has_one_range_of_each_family() {
        let texts = |text| {
            let cidrs = cidr_list(text).unwrap();
            cidrs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(texts("").is_empty() && texts("  ").is_empty());
        assert_eq!(texts(" 10.244.7.0/16 "), ["10.244.0.0/16"]);
        assert_eq!(texts("FD00::/48, 10.0.0.0/8"), ["fd00::/48", "10.0.0.0/8"]);
        for (text, error) in [
            ("10.0.0.0/8,", r#""" is no CIDR"#),
            ("10.0.0.0,fd00::/48", r#""10.0.0.0" is no CIDR"#),
            (
                "10.0.0.0/8,::ffff:11.0.0.0/104",
                "10.0.0.0/8 and 11.0.0.0/8 are both IPv4",
            ),
            (
                "10.0.0.0/8,fd00::/48,fd01::/48",
                "3 CIDRs are more than one for each IP family",
            ),
        ] {
            assert_eq!(cidr_list(text), Err(error.to_owned()), "{text}");
        }
    }

    fn any_cidr() -> impl Strategy<Value = Cidr> {
        let ipv4 =
            (any::<u32>(), 0_u8..=32).prop_map(|(first, len)| (IpFamily::V4, first.into(), len));
        let ipv6 = (any::<u128>(), 0_u8..=128).prop_map(|(first, len)| (IpFamily::V6, first, len));
        let one = prop_oneof![ipv4, ipv6];
        one.prop_map(|(family, first, len)| Cidr::from_bits(family, first, len).unwrap())
    }

    proptest! {
        #[test]
        fn a_range_reads_as_it_was_printed(range in any_cidr()) {
            // The IPv6 spelling of an IPv4 range is that IPv4 range.
            let printed = Cidr::parse(&range.to_string()).unwrap();
            prop_assert!(printed == range || printed.family() == IpFamily::V4);
        }

        #[test]
        fn no_text_does_harm(text in "[0-9a-f:./ ,+%]{0,24}") {
            if let Some(range) = Cidr::parse(&text) {
                prop_assert_eq!(Cidr::parse(&range.to_string()), Some(range));
            }
        }

        #[test]
        fn a_span_has_those_within_and_no_other(one in any_cidr(), by in 0_u8..6, at in any::<u128>()) {
            let bits = one.family().bits();
            let len = (one.prefix_len() + by).min(bits);
            let hosts = u128::MAX.checked_shr(128 - u32::from(bits - one.prefix_len())).unwrap_or(0);
            let within = Cidr::from_bits(one.family(), one.first_bits() | at & hosts, len).unwrap();
            prop_assert!(one.contains(within) && one.span().contains(&within));
            prop_assert!(within == one || within.supernets().any(|range| range == one));
            for outside in one.supernets().take(3) {
                prop_assert!(!one.span().contains(&outside));
            }
            if let Some(next) = one.last_bits().checked_add(1)
                && let Some(next) = Cidr::from_bits(one.family(), next, bits)
            {
                prop_assert!(!one.contains(next) && !one.span().contains(&next));
            }
        }
    }
}
