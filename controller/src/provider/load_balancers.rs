//! Calls about the load balancer of a Service.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        source_ranges::source_ranges,
    },
    targets::Targets,
};

use super::{Error, LoadBalancersCapability, Provider, Session, admission::Urgency, wire};

mod answer;
mod list;
mod plan;
mod slot;
mod update;

pub use list::{OwnedLoadBalancer, Owner};
pub use plan::{ChangeAction, PlanOperation, PlannedChange};
pub use slot::Slot;
pub use update::TargetsUpdate;

use answer::UncheckedAnswer;

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
        let (permit, session) = self
            .admit::<v1::GetLoadBalancerRequest>(Urgency::LoadBalancerChecks)
            .await?;
        let offered = offered(&session, v1::GetLoadBalancerRequest::METHOD.name)?;
        let call =
            self.shared
                .call_with_targets(&permit, &self.preconditions, targets, |targets| {
                    v1::GetLoadBalancerRequest {
                        context: None,
                        service: Some(with_valid_ranges(service, offered)),
                        targets: Some(targets),
                    }
                });
        UncheckedAnswer::from(call.await?.answer.unwrap_or_default()).check(
            LoadBalancerCall::Get,
            service,
            &session,
        )
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
        let ranges = ranges(service)?;
        offered(&slot.session, RPC)?;
        let input = input.await.ok_or(Error::Fenced { rpc: RPC })?;
        self.ensure(&slot, &ranges, input).await
    }

    async fn ensure(
        &self,
        slot: &Slot,
        ranges: &[IpNet],
        input: EnsureInput,
    ) -> Result<LoadBalancerAnswer, Error> {
        let EnsureInput {
            service,
            targets,
            held,
        } = input;
        let Slot { permit, session } = slot;
        let offered = offered(session, v1::EnsureLoadBalancerRequest::METHOD.name)?;
        let call =
            self.shared
                .call_with_targets(permit, &self.preconditions, &targets, |targets| {
                    v1::EnsureLoadBalancerRequest {
                        context: None,
                        service: Some(wire::service(&service, &offered.capability, ranges)),
                        targets: Some(targets),
                        held_addresses: held.as_ref().map(|held| v1::HeldAddresses {
                            ips: held.iter().map(ToString::to_string).collect(),
                        }),
                    }
                });
        UncheckedAnswer::from(call.await?.answer.unwrap_or_default()).check(
            LoadBalancerCall::Ensure,
            &service,
            session,
        )
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
        let offered = offered(&session, RPC)?;
        if !may_send() {
            return Err(Error::Fenced { rpc: RPC });
        }
        let request = |_: &Session| v1::DeleteLoadBalancerRequest {
            context: None,
            service: Some(with_valid_ranges(service, offered)),
        };
        let preconditions = &self.preconditions;
        let call = self.shared.call(&permit, preconditions, &session, request);
        UncheckedAnswer::from(call.await?.answer.unwrap_or_default()).check(
            LoadBalancerCall::Delete,
            service,
            &session,
        )
    }

    /// Waits until there is a provider that serves load balancers; `without` is called once if one
    /// does not, for the next process behind the socket may (S-1).
    pub async fn serving_load_balancers(&self, without: impl FnOnce()) {
        self.offering(|session| session.load_balancers.is_some(), without)
            .await;
    }
}

fn offered<'a>(
    session: &'a Session,
    rpc: &'static str,
) -> Result<&'a LoadBalancersCapability, Error> {
    let offered = session.load_balancers.as_ref();
    offered.ok_or(Error::NotOffered { rpc })
}

fn ranges(service: &ServiceView) -> Result<Vec<IpNet>, Error> {
    source_ranges(service).map_err(|error| Error::SourceRanges(error.into()))
}

/// For calls without source ranges: ranges that do not parse must not keep
/// it from being deleted.
fn with_valid_ranges(service: &ServiceView, offered: &LoadBalancersCapability) -> v1::Service {
    let ranges = source_ranges(service).unwrap_or_default();
    wire::service(service, &offered.capability, &ranges)
}
