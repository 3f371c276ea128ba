//! The key of a route's lock: `10.1.0.7/16` and `10.1.0.0/16` are one destination.
//!
//! A vendor's handler gets the destination as the controller wrote it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network address and prefix length of a CIDR in any spelling; `None`: it is none.
pub(crate) fn network(cidr: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = cidr.split_once('/')?;
    let length: u8 = length.parse().ok()?;
    let host_bits = |bits: u32| bits.checked_sub(length.into());
    let network = match address.parse().ok()? {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(host_bits(32)?).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(host_bits(128)?).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    };
    Some((network, length))
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn a_cidr_has_one_network_in_each_spelling() {
        let network_of = |cidr: &str| network(cidr).map(|(ip, length)| format!("{ip}/{length}"));
        for (cidr, network) in [
            ("10.1.2.0/24", Some("10.1.2.0/24")),
            ("10.1.2.3/24", Some("10.1.2.0/24")),
            ("10.1.2.3/32", Some("10.1.2.3/32")),
            ("10.1.2.3/0", Some("0.0.0.0/0")),
            ("2001:DB8:0:0::7/64", Some("2001:db8::/64")),
            ("2001:db8::7/128", Some("2001:db8::7/128")),
            ("ff::/0", Some("::/0")),
            ("10.1.2.0/33", None),
            ("2001:db8::/129", None),
            ("10.1.2.0", None),
            ("10.1.2.0/", None),
            ("pods/24", None),
            ("", None),
        ] {
            assert_eq!(network_of(cidr).as_deref(), network, "{cidr:?}");
        }
    }
}
