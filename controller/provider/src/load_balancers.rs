//! Calls about the load balancer of a Service.
//!
//! The service-lb loop takes each key together with a [`Slot`] and makes one call with it; comparisons and lists need none.
//! Options and source ranges of a Service that are refused end a call before it is sent, except a deletion and an update of
//! targets.

use std::{collections::HashMap, sync::Arc};

use outrigger_api::{
    MethodRequest,
    v1::{self, LoadBalancerIdentity, PlanOperation},
};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall},
        capability::Capability,
        options::{LoadBalancerOptions, ServedOptions},
        source_ranges::source_ranges,
    },
    targets::Targets,
};
use parking_lot::Mutex;

use super::{Error, Provider, Session, admission::Slot, wire};

mod answer;
pub(super) mod options;

pub use answer::{OwnedLoadBalancer, Owner, PlannedChange};

/// Longer ids and names of load balancers are not kept, in bytes.
const LONGEST: usize = 1024;

/// Calls about load balancers. Calls that change a load balancer begin immediately, with a [`Slot`]. The others wait while
/// calls about load balancers are paused, and end with [`Error::Unavailable`] as soon as there is no provider. Dropping the
/// future cancels the call; what the provider has begun by then may still happen.
#[derive(Clone, Copy)]
pub struct LoadBalancers<'a>(pub(super) &'a Provider);

impl LoadBalancers<'_> {
    /// Waits until one more call that changes load balancers may begin: for a provider that serves, the end of a
    /// pause, another call's end.
    pub async fn slot(self) -> Slot {
        let shared = &self.0.caller.shared;
        loop {
            shared.session_that(|_| true).await;
            if let Ok(slot) = shared.admit(v1::EnsureLoadBalancerRequest::METHOD).await {
                return slot;
            }
        }
    }

    /// Syncs the node set of `targets`, where the provider serves node sets, so that a call that names them does not wait for
    /// it. A failure is the call's, which syncs it again.
    pub async fn sync(self, targets: &Arc<Targets>) {
        let caller = &self.0.caller;
        if let Ok(session) = caller.shared.session() {
            drop(caller.sync(&session, targets).await);
        }
    }

    /// How the load balancer of `service` stands to the Service and `targets`. Changes nothing. With options that are refused
    /// it is not asked for: the load balancer stays as it is.
    ///
    /// # Errors
    /// Any [`Error`]; all but its class and the fields of [`Failure`] is for people.
    ///
    /// [`Failure`]: outrigger_core::service::plan::Failure
    pub async fn get(
        self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let slot = self.0.caller.admit::<v1::GetLoadBalancerRequest>().await?;
        let sent = ServiceToSend::of(service, &slot.session);
        sent.options?;
        let request = |service, targets, identity| v1::GetLoadBalancerRequest {
            context: None,
            service,
            targets,
            identity,
        };
        let call = LoadBalancerCall::Get;
        let called = self.call(&slot, service, sent.service, targets, request);
        let answered = called.await?;
        self.read(answered.answer, call, service, &slot.session)
    }

    /// Makes the load balancer of a Service, or changes it, to its desired state. The call uses `slot` up.
    ///
    /// # Errors
    /// The errors of [`LoadBalancers::get`]; [`Error::InvalidService`] without a call.
    pub async fn ensure(
        self,
        slot: Slot,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let sent = ServiceToSend::of(service, &slot.session).accepted()?;
        let request = |service, targets, identity| v1::EnsureLoadBalancerRequest {
            context: None,
            service,
            targets,
            identity,
        };
        let call = LoadBalancerCall::Ensure;
        let answered = self.call(&slot, service, sent, targets, request).await?;
        self.read(answered.answer, call, service, &slot.session)
    }

    /// Gives the load balancer of a Service these targets, and changes nothing else of it. A provider that does not serve
    /// updates is asked to ensure it. The call uses `slot` up.
    ///
    /// # Errors
    /// The errors of [`LoadBalancers::ensure`].
    pub async fn update(
        self,
        slot: Slot,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let sent = ServiceToSend::of(service, &slot.session);
        sent.ranges?;
        let request = |service, targets, identity| v1::UpdateLoadBalancerNodesRequest {
            context: None,
            service,
            targets,
            identity,
        };
        let call = LoadBalancerCall::Update;
        let called = self.call(&slot, service, sent.service, targets, request);
        match called.await {
            Err(Error::NotServed { .. }) => self.ensure(slot, service, targets).await,
            answered => self.read(answered?.answer, call, service, &slot.session),
        }
    }

    /// Makes a call that carries a Service, its targets, and the identity of its load balancer.
    async fn call<M: MethodRequest>(
        self,
        slot: &Slot,
        service: &ServiceView,
        sent: v1::Service,
        targets: &Arc<Targets>,
        request: impl Fn(
            Option<v1::Service>,
            Option<v1::NodeTargets>,
            Option<LoadBalancerIdentity>,
        ) -> M,
    ) -> Result<M::Response, Error> {
        let request = |targets| {
            let identity = self.0.identities.of(service);
            request(Some(sent.clone()), Some(targets), identity)
        };
        let caller = &self.0.caller;
        caller.call_with_targets(slot, targets, request).await
    }

    /// Removes the load balancer of `service` and every part of it. Where there is none, the answer is
    /// [`Disposition::Absent`].
    ///
    /// # Errors
    /// The errors of [`LoadBalancers::get`].
    pub async fn delete(
        self,
        slot: Slot,
        service: &ServiceView,
    ) -> Result<LoadBalancerAnswer, Error> {
        let session = &slot.session;
        let request = v1::DeleteLoadBalancerRequest {
            context: None,
            service: Some(ServiceToSend::of(service, session).service),
            identity: self.0.identities.of(service),
        };
        let answered = self.0.caller.call(&slot, request).await?;
        self.read(answered.answer, LoadBalancerCall::Delete, service, session)
    }

    /// Forgets the identity of a load balancer whose Service is gone: no call about it is to come.
    pub fn forget(self, uid: &str) {
        self.0.identities.forget(uid);
    }

    fn read(
        self,
        said: Option<v1::LoadBalancerAnswer>,
        call: LoadBalancerCall,
        service: &ServiceView,
        session: &Session,
    ) -> Result<LoadBalancerAnswer, Error> {
        let said = said.unwrap_or_default();
        let identity = said.identity.clone();
        let answer = answer::check(said, call, service, session)?;
        let identities = &self.0.identities;
        identities.answered(call, answer.disposition, service, identity);
        Ok(answer)
    }

    /// Lists every load balancer that this cluster owns in the cloud, all of them or an error. For
    /// reports, and for the sweep of a cluster that is gone: no loop deletes by it.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(self) -> Result<Vec<OwnedLoadBalancer>, Error> {
        let caller = &self.0.caller;
        let slot = caller.admit::<v1::ListLoadBalancersRequest>().await?;
        let request = v1::ListLoadBalancersRequest::default();
        let mut listed = Vec::new();
        let take = |entry: v1::OwnedLoadBalancer| listed.push(entry.into());
        caller.list(&slot, request, take).await?;
        Ok(listed)
    }

    /// The changes that `operation` would make in the cloud; empty: none. Changes nothing.
    ///
    /// # Errors
    /// The operation's own, before a call too; [`Error::NotOffered`] where the provider does not offer plans.
    pub async fn plan(
        self,
        operation: PlanOperation,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<Vec<PlannedChange>, Error> {
        let caller = &self.0.caller;
        let is_deletion = operation == PlanOperation::Delete;
        let slot = caller.admit::<v1::PlanLoadBalancerRequest>().await?;
        let sent = ServiceToSend::of(service, &slot.session);
        let sent = if is_deletion {
            sent.service
        } else {
            sent.accepted()?
        };
        if !slot.session.declares::<v1::PlanLoadBalancerRequest>() {
            let rpc = v1::PlanLoadBalancerRequest::METHOD.name;
            return Err(Error::NotOffered { rpc });
        }
        let request = |targets| v1::PlanLoadBalancerRequest {
            context: None,
            operation: operation.into(),
            service: Some(sent.clone()),
            targets,
            identity: self.0.identities.of(service),
        };
        let plan = if is_deletion {
            caller.call(&slot, request(None)).await?
        } else {
            let request = |targets| request(Some(targets));
            caller.call_with_targets(&slot, targets, request).await?
        };
        Ok(plan.changes.into_iter().map(Into::into).collect())
    }
}

/// A Service as the provider may see it, without source ranges that do not parse and options that are refused: neither keeps it
/// from being deleted, and options do not keep its load balancer from new targets.
struct ServiceToSend {
    service: v1::Service,
    ranges: Result<(), Error>,
    options: Result<(), Error>,
}

impl ServiceToSend {
    fn of(service: &ServiceView, session: &Session) -> Self {
        let invalid = |reason, what: Arc<str>| Error::InvalidService { reason, what };
        let offered = session.load_balancers.as_ref();
        let none = Capability::default();
        let capability = offered.map_or(&none, |offered| &offered.capability);
        let ranges = source_ranges(service);
        let ranges = ranges.map_err(|error| invalid("InvalidSourceRanges", error.into()));
        let options = LoadBalancerOptions::of(service, capability);
        let options = options.map_err(|refusal| invalid(refusal.reason, refusal.message.into()));
        let serves_any = capability.options != ServedOptions::default();
        let sent = options.as_ref().ok().filter(|_| serves_any);
        let sent = sent.cloned().map(options::sent);
        let networks = ranges.as_deref().unwrap_or_default();
        Self {
            service: wire::service(service, capability, networks, sent),
            ranges: ranges.map(drop),
            options: options.map(drop),
        }
    }

    /// The Service for a call about all that it asks for.
    fn accepted(self) -> Result<v1::Service, Error> {
        self.ranges.and(self.options).map(|()| self.service)
    }
}

/// The identities in the last answers of a lease term that had one, by the UID of the Service.
#[derive(Debug, Default)]
pub(crate) struct LoadBalancerIdentities(Mutex<HashMap<Box<str>, LoadBalancerIdentity>>);

impl LoadBalancerIdentities {
    /// The hint in a call about a Service.
    pub(super) fn of(&self, service: &ServiceView) -> Option<LoadBalancerIdentity> {
        self.0.lock().get(&service.uid).cloned()
    }

    /// The provider has answered `call`. An absence in a list that lags behind takes nothing away; after a deletion
    /// there is nothing to look for.
    pub(super) fn answered(
        &self,
        call: LoadBalancerCall,
        disposition: Disposition,
        service: &ServiceView,
        identity: Option<LoadBalancerIdentity>,
    ) {
        let is_gone = matches!(disposition, Disposition::Absent | Disposition::Retained);
        if call == LoadBalancerCall::Delete && is_gone {
            return self.forget(&service.uid);
        }
        let is_hint = |one: &LoadBalancerIdentity| {
            *one != LoadBalancerIdentity::default()
                && one.id.len() <= LONGEST
                && one.name.len() <= LONGEST
        };
        if let Some(identity) = identity.filter(is_hint) {
            self.0.lock().insert(service.uid.clone(), identity);
        }
    }

    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
