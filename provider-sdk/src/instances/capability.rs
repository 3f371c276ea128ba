use std::time::Duration;

use outrigger_api::v1;

use crate::error::duration;
use crate::setters::setters;

/// How instances are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstancesCapability {
    /// Nodes in one lookup, 1 to 500. Default 100.
    pub max_batch_size: u32,
    /// [`list_instances`](crate::Instances::list_instances) is implemented.
    pub list: bool,
    /// Which lookup is the cheapest for the cloud.
    pub lookup_preference: LookupPreference,
    /// Prefixes of the provider IDs that are this provider's. Empty: `<provider name>://`.
    pub provider_id_prefixes: Vec<String>,
    /// A Node younger than this is not deleted: its instance may still be missing from lookups.
    /// `None`: 1 min.
    pub visibility_delay: Option<Duration>,
    /// The cloud has no provider IDs: a found instance may have an empty one.
    pub without_provider_id: bool,
    /// Keys of labels that are kept in sync after a Node was initialised. Empty: none.
    pub managed_label_keys: Vec<String>,
    /// [`Instance::pod_cidrs`](crate::Instance::pod_cidrs) is filled, for a controller with
    /// `--cidr-allocator-type=CloudAllocator`.
    pub allocates_pod_cidrs: bool,
    /// Calls of [`get_instance`](crate::Instances::get_instance) at one time in one batch. Not
    /// sent; a provider with its own [`get_instances`](crate::Instances::get_instances) ignores it.
    /// Default 8; 0 is 1.
    pub concurrency: usize,
}

impl Default for InstancesCapability {
    fn default() -> Self {
        Self {
            max_batch_size: 100,
            list: false,
            lookup_preference: LookupPreference::default(),
            provider_id_prefixes: Vec::new(),
            visibility_delay: None,
            without_provider_id: false,
            managed_label_keys: Vec::new(),
            allocates_pod_cidrs: false,
            concurrency: 8,
        }
    }
}

/// The cheapest lookup of a cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupPreference {
    /// One cloud call for each instance.
    #[default]
    Each,
    /// One cloud call answers many ids.
    Batch,
    /// Listing everything is cheapest when many are wanted. Needs
    /// [`list`](InstancesCapability::list).
    ListAll,
}

impl LookupPreference {
    fn into_wire(self) -> v1::LookupPreference {
        match self {
            Self::Each => v1::LookupPreference::Each,
            Self::Batch => v1::LookupPreference::Batch,
            Self::ListAll => v1::LookupPreference::ListAll,
        }
    }
}

setters! { InstancesCapability {
    with_provider_id_prefixes => provider_id_prefixes: Vec<String>,
    with_visibility_delay => visibility_delay: Option<Duration>,
    with_managed_label_keys => managed_label_keys: Vec<String>,
} }

setters! { plain InstancesCapability {
    with_max_batch_size => max_batch_size: u32,
    with_list => list: bool,
    with_lookup_preference => lookup_preference: LookupPreference,
    with_no_provider_id => without_provider_id: bool,
    with_allocates_pod_cidrs => allocates_pod_cidrs: bool,
    with_concurrency => concurrency: usize,
} }

impl InstancesCapability {
    pub(crate) fn to_wire(&self) -> v1::InstancesCapability {
        v1::InstancesCapability {
            max_batch_size: self.max_batch_size,
            list: self.list,
            lookup_preference: self.lookup_preference.into_wire().into(),
            provider_id_prefixes: self.provider_id_prefixes.clone(),
            visibility_delay: self.visibility_delay.map(duration),
            without_provider_id: self.without_provider_id,
            managed_label_keys: self.managed_label_keys.clone(),
            allocates_pod_cidrs: self.allocates_pod_cidrs,
        }
    }
}
