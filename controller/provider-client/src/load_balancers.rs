//! Calls about the load balancer of a Service.

use std::{net::IpAddr, sync::Arc};

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

use super::{Error, Provider, Session, admission::Urgency, wire};

mod answer;
mod list;
mod plan;
mod slot;
mod update;

pub use list::{OwnedLoadBalancer, Owner};
pub use plan::{ChangeAction, PlanOperation, PlannedChange};
pub use slot::Slot;
pub use update::TargetsUpdate;

/// Input of an Ensure, as of the moment of the call.
#[derive(Clone, Debug)]
pub struct EnsureInput {
    /// The Service, with what the load balancer is made from as it was planned.
    pub service: Arc<ServiceView>,
    /// All wanted targets.
    pub targets: Arc<Targets>,
    /// For a volatile provider, the addresses in the status of all other Services; none: the Service is
    /// to keep its own.
    pub held: Option<Vec<IpAddr>>,
}

/// Those that change a load balancer begin at once, with a [`Slot`]. The others wait while calls about load
/// balancers are paused, and end with [`Error::Unavailable`] as soon as there is no provider. Dropping the future
/// cancels the call; what the provider has begun by then may still happen.
impl Provider {
    /// How the load balancer of `service` stands to the Service and `targets`. Changes nothing.
    ///
    /// # Errors
    /// Any [`Error`]; all but its class and the fields of [`Failure`] is for people.
    ///
    /// [`Failure`]: outrigger_core::service::plan::Failure
    pub async fn get_load_balancer(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let admitted = self.admit::<v1::GetLoadBalancerRequest>(Urgency::LoadBalancerChecks);
        let (permit, session) = admitted.await?;
        let request = |targets| v1::GetLoadBalancerRequest {
            context: None,
            service: Some(service_of(service, &session)),
            targets: Some(targets),
        };
        let (shared, preconditions) = (&self.shared, &self.preconditions);
        let call = shared.call_with_targets(&permit, preconditions, targets, request);
        let said = call.await?.answer.unwrap_or_default();
        answer::check(said, LoadBalancerCall::Get, service, &session)
    }

    /// Makes the load balancer of `service`, or changes it, to its desired state; without `input` the call is not
    /// sent.
    ///
    /// # Errors
    /// As [`Provider::get_load_balancer`]; [`Error::SourceRanges`] without a call, [`Error::Fenced`]
    /// without input.
    pub async fn ensure_load_balancer(
        &self,
        slot: Slot,
        service: &ServiceView,
        input: impl Future<Output = Option<EnsureInput>>,
    ) -> Result<LoadBalancerAnswer, Error> {
        const RPC: &str = v1::EnsureLoadBalancerRequest::METHOD.name;
        ranges(service)?;
        slot.session.offers::<v1::EnsureLoadBalancerRequest>()?;
        let input = input.await.ok_or(Error::Fenced { rpc: RPC })?;
        self.ensure(&slot, input).await
    }

    async fn ensure(&self, slot: &Slot, input: EnsureInput) -> Result<LoadBalancerAnswer, Error> {
        let EnsureInput {
            service,
            targets,
            held,
        } = input;
        ranges(&service)?;
        let Slot { permit, session } = slot;
        let request = |targets| v1::EnsureLoadBalancerRequest {
            context: None,
            service: Some(service_of(&service, session)),
            targets: Some(targets),
            held_addresses: held.as_ref().map(|held| v1::HeldAddresses {
                ips: held.iter().map(ToString::to_string).collect(),
            }),
        };
        let (shared, preconditions) = (&self.shared, &self.preconditions);
        let call = shared.call_with_targets(permit, preconditions, &targets, request);
        let said = call.await?.answer.unwrap_or_default();
        answer::check(said, LoadBalancerCall::Ensure, &service, session)
    }

    /// Removes the load balancer of `service` and every part of it, if `may_send` allows it. Of none, that is
    /// [`Disposition::Absent`].
    ///
    /// # Errors
    /// As [`Provider::get_load_balancer`]; [`Error::Fenced`] if it does not.
    ///
    /// [`Disposition::Absent`]: outrigger_core::service::answer::Disposition::Absent
    pub async fn delete_load_balancer(
        &self,
        slot: Slot,
        service: &ServiceView,
        may_send: impl FnOnce() -> bool,
    ) -> Result<LoadBalancerAnswer, Error> {
        const RPC: &str = v1::DeleteLoadBalancerRequest::METHOD.name;
        let Slot { permit, session } = slot;
        session.offers::<v1::DeleteLoadBalancerRequest>()?;
        if !may_send() {
            return Err(Error::Fenced { rpc: RPC });
        }
        let request = |session: &Session| v1::DeleteLoadBalancerRequest {
            context: None,
            service: Some(service_of(service, session)),
        };
        let preconditions = &self.preconditions;
        let call = self.shared.call(&permit, preconditions, &session, request);
        let said = call.await?.answer.unwrap_or_default();
        answer::check(said, LoadBalancerCall::Delete, service, &session)
    }

    /// Waits until there is a provider that serves load balancers; `without` is called once if one
    /// does not, for the next process behind the socket may (S-1).
    pub async fn serving_load_balancers(&self, without: impl FnOnce()) {
        self.offering(|session| session.load_balancers.is_some(), without)
            .await;
    }
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
