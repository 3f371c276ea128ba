//! Calls about the load balancer of a Service.

use std::sync::Arc;

use ipnet::IpNet;
use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        capability::Capability,
        source_ranges::source_ranges,
    },
    targets::Targets,
};

use super::{Error, Provider, Session, gather::ListRequest, wire};

mod answer;
mod identities;
mod report;
mod slot;

pub(super) use identities::LoadBalancerIdentities;
pub use report::{OwnedLoadBalancer, Owner, PlanOperation, PlannedChange};
pub use slot::Slot;

/// Changes in one plan that are shown.
const MOST_CHANGES: usize = 1_000;

/// Calls about load balancers. Calls that change a load balancer begin immediately, with a [`Slot`]. The others wait while calls about load
/// balancers are paused, and end with [`Error::Unavailable`] as soon as there is no provider. Dropping the future
/// cancels the call; what the provider has begun by then may still happen.
#[derive(Clone, Copy)]
pub struct LoadBalancers<'a>(pub(super) &'a Provider);

impl LoadBalancers<'_> {
    /// Waits until one more call that changes load balancers may begin: for a provider that serves, the end of a
    /// pause, another call's end.
    pub async fn slot(self) -> Slot {
        loop {
            self.0.shared.session_that(|_| true).await;
            if let Ok((permit, session)) = self
                .0
                .shared
                .admit(v1::EnsureLoadBalancerRequest::METHOD)
                .await
            {
                return Slot::new(permit, session);
            }
        }
    }

    /// Syncs the node set of `targets`, where the provider serves node sets, so that a call that names them does not wait for
    /// it. A failure is the call's, which syncs it again.
    pub async fn sync(self, targets: &Arc<Targets>) {
        let Provider {
            shared,
            preconditions,
            ..
        } = self.0;
        if let Ok(session) = shared.session() {
            drop(shared.sync(preconditions, &session, targets).await);
        }
    }

    /// How the load balancer of `service` stands to the Service and `targets`. Changes nothing.
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
        let admitted = self.0.admit::<v1::GetLoadBalancerRequest>();
        let (permit, session) = admitted.await?;
        let slot = Slot::new(permit, session).used();
        self.call::<v1::GetLoadBalancerRequest>(&slot, service, targets)
            .await
    }

    /// Makes the load balancer of a Service, or changes it, to its desired state. The call uses `slot` up.
    ///
    /// # Errors
    /// The errors of [`LoadBalancers::get`]; [`Error::SourceRanges`] without a call.
    pub async fn ensure(
        self,
        slot: Slot,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let slot = slot.used();
        self.change::<v1::EnsureLoadBalancerRequest>(&slot, service, targets)
            .await
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
        let slot = slot.used();
        let updated = self
            .change::<v1::UpdateLoadBalancerNodesRequest>(&slot, service, targets)
            .await;
        match updated {
            Err(Error::NotServed { .. }) => {
                self.change::<v1::EnsureLoadBalancerRequest>(&slot, service, targets)
                    .await
            }
            updated => updated,
        }
    }

    async fn change<C: TargetsCall>(
        self,
        slot: &Slot,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        ranges(service)?;
        slot.session.offers::<C>()?;
        self.call::<C>(slot, service, targets).await
    }

    async fn call<C: TargetsCall>(
        self,
        slot: &Slot,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let (permit, session) = (&slot.permit, &slot.session);
        let (shared, preconditions) = (&self.0.shared, &self.0.preconditions);
        let request = |targets| {
            let identity = self.0.identities.of(service);
            C::new(service_of(service, session), targets, identity)
        };
        let call = shared.call_with_targets(permit, preconditions, targets, request);
        let answer = C::answer(call.await?);
        self.read(answer, C::CALL, service, session)
    }

    /// Removes the load balancer of `service` and every part of it. Where there is none, the answer is
    /// [`Disposition::Absent`].
    ///
    /// # Errors
    /// The errors of [`LoadBalancers::get`].
    ///
    /// [`Disposition::Absent`]: outrigger_core::service::answer::Disposition::Absent
    pub async fn delete(
        self,
        slot: Slot,
        service: &ServiceView,
    ) -> Result<LoadBalancerAnswer, Error> {
        let slot = slot.used();
        let (permit, session) = (&slot.permit, &slot.session);
        session.offers::<v1::DeleteLoadBalancerRequest>()?;
        let request = |session: &Session| v1::DeleteLoadBalancerRequest {
            context: None,
            service: Some(service_of(service, session)),
            identity: self.0.identities.of(service),
        };
        let (shared, preconditions) = (&self.0.shared, &self.0.preconditions);
        let call = shared.call(permit, preconditions, session, request);
        self.read(
            call.await?.answer,
            LoadBalancerCall::Delete,
            service,
            session,
        )
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

    /// Waits until there is a provider that serves load balancers; `without` is called once if one
    /// does not, for the next process behind the socket may (S-1).
    pub async fn wait_until_serving(self, without: impl FnOnce()) {
        self.0
            .offering(|session| session.load_balancers.is_some(), without)
            .await;
    }

    /// Lists every load balancer that this cluster owns in the cloud, all of them or an error. For
    /// reports, and for the sweep of a cluster that is gone: no loop deletes by it.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(self) -> Result<Vec<OwnedLoadBalancer>, Error> {
        let (permit, session) = self.0.admit::<v1::ListLoadBalancersRequest>().await?;
        let list = || ListRequest {
            message: v1::ListLoadBalancersRequest::default(),
            collector: Vec::new(),
        };
        let shared = &self.0.shared;
        shared
            .list(&permit, &self.0.preconditions, &session, list)
            .await
    }

    /// The changes that `operation` would make in the cloud; empty: none. Changes nothing.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer plans, else as the operation itself.
    pub async fn plan(
        self,
        operation: PlanOperation,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<Vec<PlannedChange>, Error> {
        let rpc = v1::PlanLoadBalancerRequest::METHOD.name;
        if operation == PlanOperation::Ensure {
            ranges(service)?;
        }
        let (permit, session) = self.0.admit::<v1::PlanLoadBalancerRequest>().await?;
        let shared = &self.0.shared;
        let request = |operation: v1::PlanOperation, targets| v1::PlanLoadBalancerRequest {
            context: None,
            operation: operation.into(),
            service: Some(service_of(service, &session)),
            targets,
            identity: self.0.identities.of(service),
        };
        let preconditions = &self.0.preconditions;
        let plan = match operation {
            PlanOperation::Ensure => {
                let ensure = |targets| request(v1::PlanOperation::Ensure, Some(targets));
                let call = shared.call_with_targets(&permit, preconditions, targets, ensure);
                call.await?
            }
            PlanOperation::Delete => {
                let delete = |_: &Session| request(v1::PlanOperation::Delete, None);
                let call = shared.call(&permit, preconditions, &session, delete);
                call.await?
            }
        };
        if plan.changes.len() > MOST_CHANGES {
            return Err(Error::malformed(rpc, "a plan of more than 1,000 changes"));
        }
        Ok(plan.changes.into_iter().map(Into::into).collect())
    }
}

/// A call that carries a Service and its targets.
trait TargetsCall: MethodRequest {
    const CALL: LoadBalancerCall;

    fn new(
        service: v1::Service,
        targets: v1::NodeTargets,
        identity: Option<v1::LoadBalancerIdentity>,
    ) -> Self;

    fn answer(reply: Self::Response) -> Option<v1::LoadBalancerAnswer>;
}

macro_rules! targets_calls {
    ($($request:ident: $call:ident,)*) => {$(
        impl TargetsCall for v1::$request {
            const CALL: LoadBalancerCall = LoadBalancerCall::$call;

            fn new(
                service: v1::Service,
                targets: v1::NodeTargets,
                identity: Option<v1::LoadBalancerIdentity>,
            ) -> Self {
                Self {
                    context: None,
                    service: Some(service),
                    targets: Some(targets),
                    identity,
                }
            }

            fn answer(reply: Self::Response) -> Option<v1::LoadBalancerAnswer> {
                reply.answer
            }
        }
    )*};
}

targets_calls! {
    GetLoadBalancerRequest: Get,
    EnsureLoadBalancerRequest: Ensure,
    UpdateLoadBalancerNodesRequest: Update,
}

fn ranges(service: &ServiceView) -> Result<Vec<IpNet>, Error> {
    source_ranges(service).map_err(|error| Error::SourceRanges(error.into()))
}

/// The Service as the provider may see it. Source ranges that do not parse are left out: they must not keep it from
/// being deleted.
fn service_of(service: &ServiceView, session: &Session) -> v1::Service {
    let ranges = source_ranges(service).unwrap_or_default();
    let offered = session.load_balancers.as_ref();
    let none = Capability::default();
    let capability = offered.map_or(&none, |offered| &offered.capability);
    wire::service(service, capability, &ranges)
}
