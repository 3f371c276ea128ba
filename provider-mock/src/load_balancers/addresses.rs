//! Which address a load balancer gets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Family;

/// Addresses of one pool that are tried: more than any test makes, fewer than an IPv6 pool has.
const MOST: u128 = 1 << 20;

/// A free address of a family, if a pool has one. It follows from the hash as long as that one is free, so that a mock
/// that lost its memory allocates the same again.
pub(super) fn allocate(
    pools: &[IpNet],
    family: Family,
    hash: u64,
    is_taken: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    pools
        .iter()
        .filter(|pool| Family::of(pool.addr()) == family)
        .find_map(|pool| {
            let bits = u32::from(pool.max_prefix_len() - pool.prefix_len());
            // The first and the last of a network are not for hosts.
            let hosts = (1_u128 << bits.min(64)).saturating_sub(2).min(MOST);
            (0..hosts)
                .map(|step| nth(pool.network(), 1 + (u128::from(hash) + step) % hosts))
                .find(|address| !is_taken(*address))
        })
}

fn nth(network: IpAddr, index: u128) -> IpAddr {
    match network {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits().wrapping_add(index as u32)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits().wrapping_add(index)).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_host_of_a_pool_is_given_once_and_no_other() {
        let pools: Vec<IpNet> = ["192.0.2.0/29", "2001:db8::/126"]
            .map(|pool| pool.parse().unwrap())
            .into();
        for (family, hosts) in [(Family::Ipv4, 6), (Family::Ipv6, 2)] {
            let mut taken = BTreeSet::new();
            while let Some(address) = allocate(&pools, family, 41, |ip| taken.contains(&ip)) {
                assert!(pools.iter().any(|pool| pool.contains(&address)));
                assert!(taken.insert(address));
            }
            assert_eq!(taken.len(), hosts);
            assert!(!taken.contains(&"192.0.2.0".parse().unwrap()));
            assert!(!taken.contains(&"192.0.2.7".parse().unwrap()));
        }
        assert_eq!(allocate(&pools[..1], Family::Ipv6, 0, |_| false), None);
    }
}
