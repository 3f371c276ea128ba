//! Calls about instances.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use outrigger_api::{
    MethodRequest,
    v1::{self, GetStatusRequest},
};
use outrigger_core::{
    forbidden_addresses::ForbiddenAddresses,
    node::{NodeView, answer::Rules, instance::Instance, ownership::Prefixes},
};
use tokio::time::sleep_until;
use tracing::warn;

use super::{
    Error, InstancesCapability, LookupAnswer, LookupPurpose, Provider, Session,
    admission::CallClass,
    gather::{Collector, ListRequest},
    lookup::{self, NodeLookup, without_asking},
};

/// Which instances of a list are of interest: an account may have many machines that are no Nodes.
pub type WantedInstances = Arc<dyn Fn(&Instance) -> bool + Send + Sync>;

/// Calls about instances.
#[derive(Clone, Copy)]
pub struct Instances<'a>(pub(super) &'a Provider);

impl Instances<'_> {
    /// Waits until there is a provider that serves instances; `without` is called once if one does
    /// not, for the next process behind the socket may (N-1).
    pub async fn wait_until_serving(self, without: impl FnOnce()) {
        self.0
            .offering(|session| session.instances.is_some(), without)
            .await;
    }

    /// Waits until there is a provider that allocates Pod CIDRs; `without` as in
    /// [`wait_until_serving`](Self::wait_until_serving).
    pub async fn allocating_pod_cidrs(self, without: impl FnOnce()) {
        let allocates = |session: &Session| {
            let instances = session.instances.as_ref();
            instances.is_some_and(|instances| instances.allocates_pod_cidrs)
        };
        self.0.offering(allocates, without).await;
    }

    /// A session of a provider that serves instances, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::Fenced`] after the stop.
    pub async fn until_served(self) -> Result<Arc<Session>, Error> {
        let served = async {
            loop {
                let offers = |session: &Session| session.instances.is_some();
                self.0.shared.session_that(offers).await;
                let session = self.0.wait_until_serving().await;
                if session.instances.is_some() {
                    return session;
                }
            }
        };
        self.0
            .preconditions
            .wait(GetStatusRequest::METHOD.name, served)
            .await
    }

    /// Waits until calls about instances are not paused.
    pub async fn unpaused(self) {
        while let Some(until) = self.0.shared.admission.paused_until(CallClass::Instances) {
            sleep_until(until).await;
        }
    }

    /// Looks up the instance behind `node`, in one call with other lookups of the same time.
    ///
    /// Only where the cloud is asked now can the answer be [`Lookup::Absent`](outrigger_core::node::instance::Lookup::Absent) with `confirmed`: never
    /// with [`LookupPurpose::Refresh`] out of a cache. An answer that is missing, doubled or malformed is an
    /// error, never absence.
    ///
    /// Waits while calls about instances are paused. Dropping the future withdraws this one lookup; a call that no
    /// caller waits for any more is cancelled. So does the stop.
    ///
    /// # Errors
    /// Any [`Error`]; all but its class is for people.
    pub async fn look_up(self, node: Arc<NodeView>, purpose: LookupPurpose) -> LookupAnswer {
        if let Some(session) = self.0.session()
            && let Some(instances) = &session.instances
            && let Some(answer) = without_asking(&node, instances)
        {
            return Ok(answer).into();
        }
        let lookup = NodeLookup { node, purpose };
        let preconditions = self.0.preconditions.without_check();
        self.0.lookups.ask(lookup, preconditions).await
    }

    /// Lists the instances that are `is_relevant` among every instance that can be a node of this cluster, all of them or
    /// an error.
    ///
    /// An instance that breaks the contract is left out. So being missing here is a hint and no
    /// more: ask with [`Instances::look_up`] before anything follows from it.
    ///
    /// Waits while calls about instances are paused.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(
        self,
        purpose: LookupPurpose,
        is_relevant: WantedInstances,
    ) -> Result<Vec<Instance>, Error> {
        let rpc = v1::ListInstancesRequest::METHOD.name;
        let (permit, session) = self.0.admit::<v1::ListInstancesRequest>().await?;
        let offered = session.instances.as_ref();
        let offered = offered.ok_or(Error::NotOffered { rpc })?;
        self.0.shared.metrics.asked(purpose);
        let ListedInstances {
            listed,
            total,
            left_out,
            refused,
            has_one_twice,
            ..
        } = self
            .0
            .shared
            .list(&permit, &self.0.preconditions, &session, || ListRequest {
                message: v1::ListInstancesRequest {
                    context: None,
                    max_staleness: purpose.max_staleness().try_into().ok(),
                    view: lookup::wire_view(purpose).into(),
                },
                collector: ListedInstances::new(purpose, offered, Arc::clone(&is_relevant)),
            })
            .await?;
        if has_one_twice {
            return Err(Error::malformed(rpc, "one provider ID twice in a list"));
        }
        if let Some(error) = refused {
            warn!(left_out, total, %error, "instances left out of the list");
        }
        Ok(listed)
    }
}

/// The instances that are wanted, of those that a list has shown so far.
struct ListedInstances {
    purpose: LookupPurpose,
    prefixes: Prefixes,
    empty_provider_id: bool,
    forbidden: ForbiddenAddresses,
    is_relevant: WantedInstances,
    /// Hashes of the provider IDs: a long list has more IDs than there is room for.
    hashes: HashSet<u64>,
    hasher: RandomState,
    listed: Vec<Instance>,
    total: usize,
    left_out: usize,
    refused: Option<Error>,
    has_one_twice: bool,
}

impl ListedInstances {
    fn new(
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
