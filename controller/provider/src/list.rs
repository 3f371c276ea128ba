//! The list of all instances, where a provider serves it.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use outrigger_api::v1;
use outrigger_core::{
    forbidden_addresses::ForbiddenAddresses,
    node::{answer::Rules, instance::Instance, ownership::Prefixes},
};

use super::{Error, InstancesCapability, LookupPurpose, gather::Collector, lookup};

/// Which instances of a list are of interest: an account may have many machines that are no Nodes.
pub type WantedInstances = Arc<dyn Fn(&Instance) -> bool + Send + Sync>;

/// The instances that are wanted, of those that a list has shown so far.
pub(super) struct ListedInstances {
    purpose: LookupPurpose,
    prefixes: Prefixes,
    empty_provider_id: bool,
    forbidden: ForbiddenAddresses,
    is_relevant: WantedInstances,
    /// Hashes of the provider IDs: a long list has more IDs than there is room for.
    hashes: HashSet<u64>,
    hasher: RandomState,
    pub(super) listed: Vec<Instance>,
    pub(super) total: usize,
    pub(super) left_out: usize,
    pub(super) refused: Option<Error>,
    pub(super) has_one_twice: bool,
}

impl ListedInstances {
    pub(super) fn new(
        purpose: LookupPurpose,
        offered: &InstancesCapability,
        is_relevant: WantedInstances,
    ) -> Self {
        Self {
            purpose,
            prefixes: offered.prefixes.clone(),
            empty_provider_id: offered.without_provider_id,
            forbidden: offered.forbidden.clone(),
            is_relevant,
            hashes: HashSet::new(),
            hasher: RandomState::new(),
            listed: Vec::new(),
            total: 0,
            left_out: 0,
            refused: None,
            has_one_twice: false,
        }
    }
}

impl Collector for ListedInstances {
    type Entry = v1::Instance;

    fn take(&mut self, entry: v1::Instance) {
        self.total += 1;
        let id = &*entry.provider_id;
        self.has_one_twice |= !id.is_empty() && !self.hashes.insert(self.hasher.hash_one(id));
        let rules = Rules {
            prefixes: &self.prefixes,
            empty_provider_id: self.empty_provider_id,
            forbidden: &self.forbidden,
        };
        match lookup::read_instance(entry, self.purpose, rules) {
            Ok(instance) if (self.is_relevant)(&instance) => self.listed.push(instance),
            Ok(_) => {}
            Err(error) => {
                self.left_out += 1;
                self.refused = Some(error);
            }
        }
    }
}
