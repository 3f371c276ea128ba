//! The list of all instances, where a provider serves it.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    forbidden_addresses::ForbiddenAddresses,
    node::{answer::Rules, instance::Instance, ownership::Prefixes},
};
use tracing::warn;

use super::{
    Error, InstancesCapability, LookupPurpose, Provider,
    gather::{Collector, ListRequest},
    lookup,
};

/// Which instances of a list are of interest: an account may have many machines that are no Nodes.
pub type WantedInstances = Arc<dyn Fn(&Instance) -> bool + Send + Sync>;

/// The instances that are wanted, of those that a list has shown so far.
struct Instances {
    purpose: LookupPurpose,
    prefixes: Prefixes,
    empty_provider_id: bool,
    forbidden: ForbiddenAddresses,
    wanted: WantedInstances,
    /// Of the provider IDs: a long list has more of them than there is room for.
    hashes: HashSet<u64>,
    hasher: RandomState,
    listed: Vec<Instance>,
    total: usize,
    left_out: usize,
    refused: Option<Error>,
    has_one_twice: bool,
}

impl Instances {
    fn new(purpose: LookupPurpose, offered: &InstancesCapability, wanted: WantedInstances) -> Self {
        Self {
            purpose,
            prefixes: offered.prefixes.clone(),
            empty_provider_id: offered.without_provider_id,
            forbidden: offered.forbidden.clone(),
            wanted,
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

impl Collector for Instances {
    type Entry = v1::Instance;

    fn take(&mut self, entry: v1::Instance) -> bool {
        self.total += 1;
        let id = &*entry.provider_id;
        self.has_one_twice |= !id.is_empty() && !self.hashes.insert(self.hasher.hash_one(id));
        let rules = Rules {
            prefixes: &self.prefixes,
            empty_provider_id: self.empty_provider_id,
            forbidden: &self.forbidden,
        };
        match lookup::read_instance(entry, self.purpose, rules) {
            Ok(instance) if (self.wanted)(&instance) => {
                self.listed.push(instance);
                return true;
            }
            Ok(_) => {}
            Err(error) => {
                self.left_out += 1;
                self.refused = Some(error);
            }
        }
        false
    }
}

impl Provider {
    /// Lists the instances that are `wanted` among every instance that can be a node of this cluster, all of them or
    /// an error.
    ///
    /// An instance that breaks the contract is left out. So being missing here is a hint and no
    /// more: ask with [`Provider::lookup`] before anything follows from it.
    ///
    /// Waits while calls about instances are paused.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(
        &self,
        purpose: LookupPurpose,
        wanted: WantedInstances,
    ) -> Result<Vec<Instance>, Error> {
        let rpc = v1::ListInstancesRequest::METHOD.name;
        let (permit, session) = self
            .admit::<v1::ListInstancesRequest>(purpose.into())
            .await?;
        let offered = session.instances.as_ref();
        let offered = offered.ok_or(Error::NotOffered { rpc })?;
        self.shared.metrics.asked(purpose);
        let Instances {
            listed,
            total,
            left_out,
            refused,
            has_one_twice,
            ..
        } = self
            .shared
            .list(&permit, &self.preconditions, &session, || ListRequest {
                message: v1::ListInstancesRequest {
                    context: None,
                    max_staleness: purpose.max_staleness().try_into().ok(),
                    view: lookup::wire_view(purpose).into(),
                },
                collector: Instances::new(purpose, offered, Arc::clone(&wanted)),
            })
            .await?;
        if has_one_twice {
            return Err(Error::Malformed {
                rpc,
                what: "one provider ID twice in a list".into(),
            });
        }
        if let Some(error) = refused {
            warn!(left_out, total, %error, "instances left out of the list");
        }
        Ok(listed)
    }
}
