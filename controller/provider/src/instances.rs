//! Calls about instances.
//!
//! The loops of Nodes look up through [`Instances::look_up`], which batches; the refresh of Nodes lists. A Node of another
//! provider is answered without a call.

use std::{collections::HashSet, sync::Arc};

use outrigger_api::{
    MethodRequest,
    v1::{self, GetStatusRequest},
};
use outrigger_core::node::{NodeView, instance::Instance};
use tokio::time::sleep_until;
use tracing::warn;

use super::{
    Error, LookupAnswer, LookupPurpose, Provider, Session,
    admission::CallClass,
    batch,
    lookup::{self, NodeLookup, without_asking},
};

/// Calls about instances.
#[derive(Clone, Copy)]
pub struct Instances<'a>(pub(super) &'a Provider);

impl Instances<'_> {
    /// A session of a provider that serves instances, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::Fenced`] after the stop.
    pub async fn until_served(self) -> Result<Arc<Session>, Error> {
        let served = async {
            loop {
                let offers = |session: &Session| session.instances.is_some();
                self.0.caller.shared.session_that(offers).await;
                let session = self.0.wait_until_serving().await;
                if session.instances.is_some() {
                    return session;
                }
            }
        };
        let rpc = GetStatusRequest::METHOD.name;
        self.0.caller.wait(rpc, served).await
    }

    /// Waits until calls about instances are not paused.
    pub async fn unpaused(self) {
        let admission = &self.0.caller.shared.admission;
        while let Some(until) = admission.paused_until(CallClass::Instances) {
            sleep_until(until).await;
        }
    }

    /// Looks up the instance behind `node`, in one call with other lookups of the same time.
    ///
    /// Only where the cloud is asked now can the answer be [`Lookup::Absent`](outrigger_core::node::instance::Lookup::Absent)
    /// with `confirmed`: never with [`LookupPurpose::Refresh`] out of a cache. An answer that is missing, doubled or malformed
    /// is an error, never absence.
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
        let caller = self.0.caller.of_several();
        batch::ask(&self.0.lookups, lookup, caller).await
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
        is_relevant: impl Fn(&Instance) -> bool + Send,
    ) -> Result<Vec<Instance>, Error> {
        let rpc = v1::ListInstancesRequest::METHOD.name;
        let caller = &self.0.caller;
        let slot = caller.admit::<v1::ListInstancesRequest>().await?;
        let offered = slot.session.instances.as_ref();
        let offered = offered.ok_or(Error::NotOffered { rpc })?;
        let rules = offered.rules(offered.without_provider_id);
        let request = v1::ListInstancesRequest {
            context: None,
            max_staleness: purpose.max_staleness().try_into().ok(),
            view: lookup::wire_view(purpose).into(),
        };
        let (mut ids, mut has_one_twice) = (HashSet::new(), false);
        let (mut listed, mut total, mut left_out, mut refused) = (Vec::new(), 0, 0, None);
        let take = |entry: v1::Instance| {
            total += 1;
            let id = &entry.provider_id;
            has_one_twice |= !id.is_empty() && !ids.insert(id.clone());
            match lookup::read_instance(entry, purpose, rules) {
                Ok(instance) if is_relevant(&instance) => listed.push(instance),
                Ok(_) => {}
                Err(error) => {
                    left_out += 1;
                    refused = Some(error);
                }
            }
        };
        caller.list(&slot, request, take).await?;
        if has_one_twice {
            return Err(Error::malformed(rpc, "one provider ID twice in a list"));
        }
        if let Some(error) = refused {
            warn!(left_out, total, %error, "instances left out of the list");
        }
        Ok(listed)
    }
}
