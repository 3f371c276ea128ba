//! Load balancers of Services of type `LoadBalancer`.

mod answer;
mod capability;
mod load_balancer;
mod plan;

use std::future::Future;

use outrigger_api::v1;

use crate::sink::{Listed, Sink};
use crate::{Context, Error, Service, Targets};

pub use answer::{Answer, Deleted, Ensured, Observed, Updated};
pub use capability::LoadBalancersCapability;
pub use load_balancer::{LoadBalancer, OwnedLoadBalancer, ServiceName};
pub use plan::{ChangeAction, PlanOperation, PlannedChange};

#[cfg(test)]
mod tests;

/// Where [`list_load_balancers`](LoadBalancers::list_load_balancers) puts what it finds.
pub type LoadBalancerSink = Sink<OwnedLoadBalancer>;

impl Listed for OwnedLoadBalancer {
    type Page = v1::ListLoadBalancersResponse;

    fn into_wire(self) -> v1::OwnedLoadBalancer {
        self.into_wire()
    }
}

/// Makes, changes and removes load balancers.
///
/// The key is the Service's UID. **Everything that is made in the cloud must be findable from the
/// key alone** ([`Cluster::uid`](crate::Cluster) and [`Service::uid`] as tags, or a name made of
/// them), written in the call that creates it where the cloud allows that: an answer may be lost, and
/// this process may be killed at any time. State the wanted state and repeat it: each method may be
/// called again for what it has done already.
///
/// The server runs one changing call per Service at a time; others of the same Service wait, or get
/// [`Error::operation_in_progress`] after 10 s. That applies beyond the end of a call whose caller
/// went away, since its handler runs on (see [`Context`]).
///
/// A Service whose class is not served ([`LoadBalancersCapability::classes`]) never reaches
/// [`ensure_load_balancer`](Self::ensure_load_balancer) or
/// [`update_load_balancer_nodes`](Self::update_load_balancer_nodes): the server answers not managed.
/// It does reach the other methods, since its class may have been served when it was made.
///
/// Methods may be written as `async fn`.
pub trait LoadBalancers: Send + Sync + 'static {
    /// Which Services are served, and how. The same for the life of the process; asked when the
    /// server starts.
    fn capability(&self) -> LoadBalancersCapability {
        LoadBalancersCapability::default()
    }

    /// Reads what exists now. Changes nothing. A load balancer that is half made is
    /// [`Observed::InProgress`]; one that an ensure with this Service and these targets would change,
    /// [`Observed::Differs`]. Without targets they are not compared.
    fn get_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: Option<&Targets>,
    ) -> impl Future<Output = Result<Answer<Observed>, Error>> + Send;

    /// Makes the load balancer, or changes it, as the Service and its targets ask. An empty
    /// set of targets is legal. A cloud that needs minutes answers [`Ensured::InProgress`] and is asked
    /// again, rather than holding the call.
    ///
    /// # Cancellation
    ///
    /// See [`Context`]: `ctx.check()?` before each change.
    fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> impl Future<Output = Result<Answer<Ensured>, Error>> + Send;

    /// Sets the targets of the load balancer and changes nothing else; never makes one
    /// ([`Updated::Absent`]).
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> impl Future<Output = Result<Answer<Updated>, Error>> + Send;

    /// Removes the load balancer and every part of it. The answer is
    /// [`Deleted::Absent`] if there is none. Only the
    /// Service's namespace, name and UID can be relied on: it may be gone from Kubernetes.
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> impl Future<Output = Result<Answer<Deleted>, Error>> + Send;

    /// Hands everything that this cluster owns in the cloud to `load_balancers`. `Ok` means that the
    /// list is whole; with `Err`, or a panic, the caller discards it. Served only with
    /// [`LoadBalancersCapability::list`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`]; [`LoadBalancerSink::send`] also fails once the caller is gone.
    fn list_load_balancers(
        &self,
        ctx: &Context,
        load_balancers: &mut LoadBalancerSink,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (ctx, load_balancers);
        std::future::ready(Err(Error::capability_disabled(
            "this provider does not list load balancers",
        )))
    }

    /// Returns the changes that an operation would make; empty: none. Changes nothing. Served only with
    /// [`LoadBalancersCapability::plan`].
    fn plan_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        operation: &PlanOperation,
    ) -> impl Future<Output = Result<Vec<PlannedChange>, Error>> + Send {
        let _ = (ctx, service, operation);
        std::future::ready(Err(Error::capability_disabled(
            "this provider does not plan load balancers",
        )))
    }
}
