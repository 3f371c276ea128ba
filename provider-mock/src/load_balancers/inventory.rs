//! Every load balancer that exists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::{Family, LoadBalancer, LoadBalancerRules, LoadBalancerSpec, Target};
use crate::instances::mixed;

/// Why a load balancer was not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadBalancerRefused {
    /// There are as many as there may be.
    #[error("there are {0} load balancers, as many as the quota allows")]
    Quota(usize),
    /// No pool has an address left.
    #[error("the pools have no address left")]
    NoAddress,
    /// Another one has the address.
    #[error("the address {address} belongs to load balancer {id}")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The load balancer that has it.
        id: String,
    },
    /// One of that id, or with those tags, exists.
    #[error("there is a load balancer {0} already")]
    Exists(String),
    /// There is none of that id.
    #[error("there is no load balancer {0}")]
    Unknown(String),
}

/// The load balancers by id, by tags and by address. They are shared, not copied.
#[derive(Debug, Default, Clone)]
pub struct LoadBalancerInventory {
    by_id: BTreeMap<String, Arc<LoadBalancer>>,
    /// By cluster and Service UID.
    by_key: HashMap<(String, String), String>,
    by_address: HashMap<IpAddr, String>,
    /// Load balancers in deletion, by when they are gone.
    going: BTreeSet<(Timestamp, String)>,
    /// Lists of targets that are in use, so that equal ones are kept once.
    shared: Vec<Weak<[Target]>>,
}

impl PartialEq for LoadBalancerInventory {
    fn eq(&self, other: &Self) -> bool {
        self.by_id == other.by_id
    }
}

impl LoadBalancerInventory {
    /// From a saved state.
    pub fn restore(load_balancers: Vec<LoadBalancer>) -> Result<Self, LoadBalancerRefused> {
        let mut inventory = Self::default();
        for load_balancer in load_balancers {
            inventory.insert(load_balancer)?;
        }
        Ok(inventory)
    }

    /// Adds a new one.
    pub fn insert(
        &mut self,
        mut load_balancer: LoadBalancer,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let key = key_of(&load_balancer);
        if let Some(id) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            return Err(LoadBalancerRefused::Exists(id.clone()));
        }
        if self.by_id.contains_key(&load_balancer.id) {
            return Err(LoadBalancerRefused::Exists(load_balancer.id));
        }
        self.check_addresses(&load_balancer)?;
        load_balancer.targets = self.share(load_balancer.targets);
        Ok(self.index(load_balancer))
    }

    /// Puts a changed one in the place of the one with its id.
    pub fn replace(
        &mut self,
        mut load_balancer: LoadBalancer,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        if !self.by_id.contains_key(&load_balancer.id) {
            return Err(LoadBalancerRefused::Unknown(load_balancer.id));
        }
        self.check_addresses(&load_balancer)?;
        self.remove(&load_balancer.id);
        load_balancer.targets = self.share(load_balancer.targets);
        Ok(self.index(load_balancer))
    }

    fn check_addresses(&self, load_balancer: &LoadBalancer) -> Result<(), LoadBalancerRefused> {
        for address in &load_balancer.addresses {
            if let Some(id) = self.by_address.get(address)
                && *id != load_balancer.id
            {
                return Err(LoadBalancerRefused::AddressTaken {
                    address: *address,
                    id: id.clone(),
                });
            }
        }
        Ok(())
    }

    fn index(&mut self, load_balancer: LoadBalancer) -> Arc<LoadBalancer> {
        let id = &load_balancer.id;
        if let Some(key) = key_of(&load_balancer) {
            self.by_key.insert(key, id.clone());
        }
        for address in &load_balancer.addresses {
            self.by_address.insert(*address, id.clone());
        }
        if let Some(gone_at) = load_balancer.gone_at {
            self.going.insert((gone_at, id.clone()));
        }
        let load_balancer = Arc::new(load_balancer);
        self.by_id
            .insert(load_balancer.id.clone(), Arc::clone(&load_balancer));
        load_balancer
    }

    /// Removes one at once; its addresses are free.
    pub fn remove(&mut self, id: &str) -> Option<Arc<LoadBalancer>> {
        let load_balancer = self.by_id.remove(id)?;
        if let Some(key) = key_of(&load_balancer) {
            self.by_key.remove(&key);
        }
        for address in &load_balancer.addresses {
            self.by_address.remove(address);
        }
        if let Some(gone_at) = load_balancer.gone_at {
            self.going.remove(&(gone_at, id.to_owned()));
        }
        Some(load_balancer)
    }

    /// Removes those whose time has come. Returns whether there were any.
    pub(crate) fn settle(&mut self, now: Timestamp) -> bool {
        let mut settled = false;
        while let Some((gone_at, id)) = self.going.first().cloned()
            && gone_at <= now
        {
            self.remove(&id);
            settled = true;
        }
        settled
    }

    /// Makes one for a Service, unless there is one already.
    pub(crate) fn create(
        &mut self,
        cluster: &str,
        spec: &LoadBalancerSpec,
        targets: Arc<[Target]>,
        rules: &LoadBalancerRules,
        now: Timestamp,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        if let Some(existing) = self.find(cluster, &spec.service.uid) {
            return Ok(Arc::clone(existing));
        }
        if rules.quota.is_some_and(|quota| self.by_id.len() >= quota) {
            return Err(LoadBalancerRefused::Quota(self.by_id.len()));
        }
        let hash = hash_of(cluster, &spec.service.uid);
        let provisioning = SignedDuration::try_from(spec.provisioning).unwrap_or_default();
        let is_free = |ip: &&IpAddr| {
            !self.by_address.contains_key(*ip) && rules.pools.iter().any(|pool| pool.contains(*ip))
        };
        let kept: Vec<_> = spec.kept.iter().filter(is_free).copied().collect();
        let load_balancer = LoadBalancer {
            id: format!("lb-{hash:016x}"),
            name: format!("{}-{}", spec.service.namespace, spec.service.name),
            cluster: cluster.to_owned(),
            service: Some(spec.service.clone()),
            address_mode: spec.address_mode,
            addresses: self.addresses(spec, hash, &kept, rules)?,
            ports: spec.ports.clone(),
            source_ranges: spec.source_ranges.clone(),
            health_check_node_port: spec.health_check_node_port,
            options: spec.options.clone(),
            targets,
            protected: spec.protected,
            created_at: now,
            ready_at: now.checked_add(provisioning).unwrap_or(now),
            gone_at: None,
        };
        self.insert(load_balancer)
    }

    /// Changes one to the desired state of its Service, except the targets.
    pub(crate) fn change(
        &mut self,
        id: &str,
        spec: &LoadBalancerSpec,
        rules: &LoadBalancerRules,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let existing = self.known(id)?;
        let hash = hash_of(&existing.cluster, &spec.service.uid);
        let addresses = self.addresses(spec, hash, &existing.addresses, rules)?;
        self.replace(LoadBalancer {
            service: Some(spec.service.clone()),
            address_mode: spec.address_mode,
            addresses,
            ports: spec.ports.clone(),
            source_ranges: spec.source_ranges.clone(),
            health_check_node_port: spec.health_check_node_port,
            options: spec.options.clone(),
            protected: spec.protected,
            ..LoadBalancer::clone(&existing)
        })
    }

    /// Sets the targets of one.
    pub(crate) fn set_targets(
        &mut self,
        id: &str,
        targets: Arc<[Target]>,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let existing = self.known(id)?;
        self.replace(LoadBalancer {
            targets,
            ..LoadBalancer::clone(&existing)
        })
    }

    fn known(&self, id: &str) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let existing = self.by_id.get(id).cloned();
        existing.ok_or_else(|| LoadBalancerRefused::Unknown(id.to_owned()))
    }

    /// One address of each wanted family: the one asked for, one that it has, or a free one.
    fn addresses(
        &self,
        spec: &LoadBalancerSpec,
        hash: u64,
        held: &[IpAddr],
        rules: &LoadBalancerRules,
    ) -> Result<Vec<IpAddr>, LoadBalancerRefused> {
        let of = |ip: &IpAddr, family| Family::of(*ip) == family;
        let taken = |ip| self.by_address.contains_key(&ip);
        spec.families
            .iter()
            .map(|family| {
                let mut requested = spec.requested.iter().copied();
                let requested = requested.find(|ip| of(ip, *family));
                let held = held.iter().copied().find(|ip| of(ip, *family));
                requested
                    .or(held)
                    .or_else(|| allocate(&rules.pools, *family, hash, taken))
                    .ok_or(LoadBalancerRefused::NoAddress)
            })
            .collect()
    }

    /// The list that others with equal targets use.
    fn share(&mut self, targets: Arc<[Target]>) -> Arc<[Target]> {
        self.shared.retain(|list| list.strong_count() > 0);
        let mut lists = self.shared.iter().filter_map(Weak::upgrade);
        if let Some(twin) = lists.find(|list| Arc::ptr_eq(list, &targets) || **list == *targets) {
            return twin;
        }
        self.shared.push(Arc::downgrade(&targets));
        targets
    }

    /// The one with these tags.
    pub fn find(&self, cluster: &str, uid: &str) -> Option<&Arc<LoadBalancer>> {
        let id = self.by_key.get(&(cluster.to_owned(), uid.to_owned()))?;
        self.by_id.get(id)
    }

    /// The one with this id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<LoadBalancer>> {
        self.by_id.get(id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<LoadBalancer>> {
        self.by_id.values()
    }

    /// At most `size` of a cluster that come after the id `after`, by id.
    pub fn page(&self, cluster: &str, after: Option<&str>, size: usize) -> Vec<Arc<LoadBalancer>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(_, load_balancer)| load_balancer)
            .filter(|load_balancer| load_balancer.cluster == cluster)
            .take(size)
            .cloned()
            .collect()
    }
}

fn key_of(load_balancer: &LoadBalancer) -> Option<(String, String)> {
    let service = load_balancer.service.as_ref()?;
    Some((load_balancer.cluster.clone(), service.uid.clone()))
}

fn hash_of(cluster: &str, uid: &str) -> u64 {
    mixed(cluster.bytes().chain([0]).chain(uid.bytes()))
}

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
