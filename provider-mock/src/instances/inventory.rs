//! Every instance that exists, and every name whose instance was deleted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::spec::Hash;
use super::{Instance, InstanceId, NodeName, PodCidrRange};
use crate::cidr::Cidr;

/// Why an instance was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// An instance of that name exists.
    #[error(
        "there is an instance {name} already (id {id}); delete it first, or choose another name"
    )]
    NameTaken {
        /// The name.
        name: NodeName,
        /// Id of the instance that has it.
        id: InstanceId,
    },
    /// An instance of that id exists.
    #[error("the id {id} belongs to the instance {name} already; choose another id")]
    IdTaken {
        /// The id.
        id: InstanceId,
        /// Name of the instance that has it.
        name: NodeName,
    },
}

/// The instances by id and by name.
///
/// Instances are shared, not copied: an answer, a page and a snapshot share one allocation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Inventory {
    by_id: BTreeMap<InstanceId, Arc<Instance>>,
    by_name: HashMap<NodeName, InstanceId>,
    /// Names whose instance was deleted, with the generation that a new one of that name gets.
    deleted: BTreeMap<NodeName, u32>,
    /// How many instances have a block of addresses for Pods: more than one where an operator set it.
    pod_cidrs: HashMap<Cidr, usize>,
}

impl Inventory {
    /// From a saved state.
    pub fn restore(
        instances: Vec<Instance>,
        deleted: BTreeMap<NodeName, u32>,
    ) -> Result<Self, Refused> {
        let mut inventory = Self {
            deleted,
            ..Self::default()
        };
        for instance in instances {
            inventory.insert(instance)?;
        }
        Ok(inventory)
    }

    /// Adds a new instance, with a block of each range if it has none yet. Without a free block in
    /// one of them it gets none at all.
    pub(crate) fn insert_with_blocks(
        &mut self,
        mut instance: Instance,
        ranges: &[PodCidrRange],
    ) -> Result<Arc<Instance>, Refused> {
        if instance.pod_cidrs.is_empty() {
            let hash = Hash::of(&instance.name, instance.generation);
            let is_taken = |block| self.pod_cidrs.contains_key(&block);
            let blocks = ranges.iter().map(|range| range.allocate(hash.0, is_taken));
            instance.pod_cidrs = blocks.collect::<Option<Vec<_>>>().unwrap_or_default();
        }
        self.insert(instance)
    }

    /// Adds a new instance; its name is no longer a deleted one.
    pub fn insert(&mut self, instance: Instance) -> Result<Arc<Instance>, Refused> {
        if let Some(id) = self.by_name.get(&instance.name) {
            return Err(Refused::NameTaken {
                name: instance.name,
                id: id.clone(),
            });
        }
        if let Some(other) = self.by_id.get(&instance.id) {
            return Err(Refused::IdTaken {
                id: instance.id,
                name: other.name.clone(),
            });
        }
        self.deleted.remove(&instance.name);
        self.by_name
            .insert(instance.name.clone(), instance.id.clone());
        for block in &instance.pod_cidrs {
            *self.pod_cidrs.entry(block.network()).or_default() += 1;
        }
        let instance = Arc::new(instance);
        self.by_id
            .insert(instance.id.clone(), Arc::clone(&instance));
        Ok(instance)
    }

    /// Puts a changed instance in the place of the one with its id and name, if that exists.
    pub(crate) fn replace(&mut self, instance: Instance) -> Option<Arc<Instance>> {
        let slot = self.by_id.get_mut(&instance.id)?;
        *slot = Arc::new(instance);
        Some(Arc::clone(slot))
    }

    /// Deletes an instance and remembers that its name was deleted.
    pub fn remove(&mut self, id: &InstanceId) -> Option<Arc<Instance>> {
        let instance = self.by_id.remove(id)?;
        self.by_name.remove(&instance.name);
        for block in &instance.pod_cidrs {
            if let Entry::Occupied(mut holders) = self.pod_cidrs.entry(block.network()) {
                *holders.get_mut() -= 1;
                if *holders.get() == 0 {
                    holders.remove();
                }
            }
        }
        self.deleted
            .insert(instance.name.clone(), instance.generation + 1);
        Some(instance)
    }

    /// The instance with this id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Instance>> {
        self.by_id.get(id)
    }

    /// The instance with this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Instance>> {
        self.by_name.get(name).and_then(|id| self.by_id.get(id))
    }

    /// True if the last instance of this name was deleted.
    pub fn was_deleted(&self, name: &NodeName) -> bool {
        self.deleted.contains_key(name)
    }

    /// The generation that a new instance of this name gets.
    pub fn next_generation(&self, name: &NodeName) -> u32 {
        self.deleted.get(name).copied().unwrap_or_default()
    }

    /// All instances, by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Instance>> {
        self.by_id.values()
    }

    /// At most `size` instances that come after the id `after`, by id.
    pub fn page(&self, after: Option<&InstanceId>, size: usize) -> Vec<Arc<Instance>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id
            .range::<InstanceId, _>((from, Bound::Unbounded))
            .take(size)
            .map(|(_, instance)| Arc::clone(instance))
            .collect()
    }

    /// Names whose instance was deleted, with the generation of the next one.
    pub fn deleted(&self) -> &BTreeMap<NodeName, u32> {
        &self.deleted
    }
}
