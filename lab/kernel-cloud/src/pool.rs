//! The addresses that load balancers get.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use outrigger_provider_sdk::Error;

use crate::load_balancer::Family;

/// Ranges of addresses that are sent to this host, each address to be one load balancer's.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    ranges: Vec<IpNet>,
}

impl Pool {
    /// A pool of these ranges; ranges that overlap count once.
    pub fn new(ranges: &[IpNet]) -> Self {
        let ranges: Vec<_> = ranges.iter().map(IpNet::trunc).collect();
        Self {
            ranges: IpNet::aggregate(&ranges),
        }
    }

    /// The ranges of one family.
    pub fn ranges(&self, family: Family) -> impl Iterator<Item = &IpNet> {
        self.ranges
            .iter()
            .filter(move |range| Family::of(range.addr()) == family)
    }

    /// Returns whether the address is in the pool.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }

    /// An address of each family: the one that `named` has, else the one that is held, else the first that is free.
    /// `taken` are the addresses of all other load balancers.
    ///
    /// # Errors
    ///
    /// A named address is not of the pool, or is another's; a family has no pool, or a full one.
    pub fn addresses(
        &self,
        families: &[Family],
        named: &[IpAddr],
        held: &BTreeMap<Family, IpAddr>,
        taken: &BTreeSet<IpAddr>,
    ) -> Result<BTreeMap<Family, IpAddr>, Error> {
        let mut chosen = BTreeMap::new();
        for family in families {
            let named = named
                .iter()
                .find(|address| Family::of(**address) == *family);
            let address = match (named, held.get(family)) {
                (Some(address), _) => self.named(*address, taken)?,
                (None, Some(address)) => *address,
                (None, None) => self.free(*family, taken)?,
            };
            chosen.insert(*family, address);
        }
        Ok(chosen)
    }

    fn named(&self, address: IpAddr, taken: &BTreeSet<IpAddr>) -> Result<IpAddr, Error> {
        if !self.contains(address) {
            return Err(Error::conflicting_resource(format!(
                "the address {address} is not in the pool of this provider: {:?}",
                self.ranges
            )));
        }
        if taken.contains(&address) {
            return Err(Error::conflicting_resource(format!(
                "the address {address} is another load balancer's"
            )));
        }
        Ok(address)
    }

    fn free(&self, family: Family, taken: &BTreeSet<IpAddr>) -> Result<IpAddr, Error> {
        let mut ranges = self.ranges(family).peekable();
        if ranges.peek().is_none() {
            return Err(Error::unsupported_feature(format!(
                "this provider has no pool of {family} addresses: start it with --pool"
            )));
        }
        let all =
            ranges.flat_map(|range| range.subnets(range.max_prefix_len()).into_iter().flatten());
        let mut all = all.map(|one| one.addr());
        let free = all.find(|address| !taken.contains(address));
        free.ok_or_else(|| {
            Error::quota_exceeded(format!(
                "each {family} address of the pool is another load balancer's"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use outrigger_provider_sdk::ErrorReason;

    use super::*;

    fn pool() -> Pool {
        let ranges = ["198.51.100.0/31", "198.51.100.8/32", "2001:db8::/127"];
        Pool::new(&ranges.map(|range| range.parse().unwrap()))
    }

    fn set(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect()
    }

    fn choose(named: &[&str], held: &[&str], taken: &[&str]) -> Result<Vec<String>, Error> {
        let named: Vec<_> = named
            .iter()
            .map(|address| address.parse().unwrap())
            .collect();
        let held = set(held)
            .into_iter()
            .map(|address| (Family::of(address), address))
            .collect();
        let chosen = pool().addresses(&Family::ALL, &named, &held, &set(taken))?;
        Ok(chosen.values().map(ToString::to_string).collect())
    }

    #[test]
    fn an_address_is_the_named_one_or_the_one_that_is_held_or_the_first_that_is_free() {
        for (named, held, taken, expected) in [
            (&[][..], &[][..], &[][..], ["198.51.100.0", "2001:db8::"]),
            (
                &[],
                &[],
                &["198.51.100.0", "2001:db8::"],
                ["198.51.100.1", "2001:db8::1"],
            ),
            (&[], &["198.51.100.1"], &[], ["198.51.100.1", "2001:db8::"]),
            (
                &["198.51.100.8"],
                &["198.51.100.1"],
                &[],
                ["198.51.100.8", "2001:db8::"],
            ),
            // An address that the pool has lost stays.
            (&[], &["203.0.113.1"], &[], ["203.0.113.1", "2001:db8::"]),
        ] {
            assert_eq!(choose(named, held, taken).unwrap(), expected);
        }
    }

    #[test]
    fn an_address_that_cannot_be_given_is_an_error_that_names_it() {
        let full = ["198.51.100.0", "198.51.100.1", "198.51.100.8"];
        for (named, taken, reason, part) in [
            (
                &["203.0.113.1"][..],
                &[][..],
                ErrorReason::ConflictingResource,
                "203.0.113.1",
            ),
            (
                &["198.51.100.1"],
                &["198.51.100.1"],
                ErrorReason::ConflictingResource,
                "198.51.100.1",
            ),
            (&[], &full, ErrorReason::QuotaExceeded, "IPv4"),
        ] {
            let error = choose(named, &[], taken).unwrap_err();
            assert_eq!(error.reason(), Some(reason), "{error}");
            assert!(error.message().contains(part), "{error}");
        }
        let none = Pool::new(&[]).addresses(&[Family::V6], &[], &BTreeMap::new(), &BTreeSet::new());
        assert_eq!(
            none.unwrap_err().reason(),
            Some(ErrorReason::UnsupportedFeature)
        );
    }
}
