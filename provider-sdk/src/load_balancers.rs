//! [`LoadBalancers`]: the load balancers of Services of type `LoadBalancer`.
//!
//! The server calls it with the request of the contract and, beside it, the targets that the request names, which it takes
//! from the node set (`node_sets`). It lets one changing call about a Service run at a time, and answers for Services of
//! other classes by itself. An answer is made with [`answer`]; each call states the desired state in full, so a lost answer
//! is repaired by the next call.

pub mod answer;

use std::future::Future;

use outrigger_api::v1;

use crate::sink::Sink;
use crate::{Context, Error, Targets};

/// How a load balancer stands; made in [`answer`].
pub type Answer = v1::LoadBalancerAnswer;

/// Where [`list_load_balancers`](LoadBalancers::list_load_balancers) puts what it finds.
pub type LoadBalancerSink = Sink<v1::ListLoadBalancersResponse>;

/// A request about the load balancer of one Service.
pub trait OfService {
    /// Its Service. A request that a server hands out has one with a UID.
    fn service(&self) -> &v1::Service;
}

/// The Service of a request that names no Service.
static NO_SERVICE: std::sync::LazyLock<v1::Service> =
    std::sync::LazyLock::new(v1::Service::default);

macro_rules! of_service {
    ($($request:ident)+) => {
        $(impl OfService for v1::$request {
            fn service(&self) -> &v1::Service {
                self.service.as_ref().unwrap_or_else(|| &NO_SERVICE)
            }
        })+
    };
}

of_service! {
    GetLoadBalancerRequest EnsureLoadBalancerRequest UpdateLoadBalancerNodesRequest DeleteLoadBalancerRequest
    PlanLoadBalancerRequest
}

/// Makes, changes and removes load balancers.
///
/// The key is the Service's UID. **Everything that is made in the cloud must be findable from the
/// key alone** ([`uid`](v1::ClusterInfo::uid) of the cluster and [`uid`](v1::Service::uid) of the Service as tags, or
/// a name made of them), written in the call that creates it where the cloud allows that: an answer may be lost, and
/// this process may be killed at any time. State the wanted state and repeat it: each method may be
/// called again for what it has done already.
///
/// The server runs one changing call per Service at a time, and of all Services no more than
/// [`max_in_flight`](v1::LoadBalancersCapability::max_in_flight); others of the same Service wait, or get
/// [`Error::operation_in_progress`] after 10 s. That applies beyond the end of a call whose caller
/// went away, since its handler runs on (see [`Context`]).
///
/// A Service whose class is not served ([`classes`](v1::LoadBalancersCapability::classes)) never reaches
/// [`ensure_load_balancer`](Self::ensure_load_balancer) or
/// [`update_load_balancer_nodes`](Self::update_load_balancer_nodes): the server answers not managed.
/// It does reach the other methods, since its class may have been served when it was made.
///
/// Each request has its Service in [`service`](OfService::service); its targets are those of the node set that it
/// names. Portable options, as far as [`options`](v1::LoadBalancersCapability::options) declares them, are in
/// [`load_balancer_options`](v1::Service::load_balancer_options); an annotation of yours that says otherwise is
/// [`Error::conflicting_options`]. Methods may be written as `async fn`.
pub trait LoadBalancers: Send + Sync + 'static {
    /// Which Services are served, and how. The same for the life of the process; asked when the
    /// server starts.
    fn capability(&self) -> v1::LoadBalancersCapability {
        v1::LoadBalancersCapability::default()
    }

    /// Compares the load balancer with the Service and, unless they are `None`, with the targets. Changes nothing.
    /// Answers: [`ready`](answer::ready), [`differs`](answer::differs) if an ensure would change it,
    /// [`in_progress`](answer::in_progress) if it is half made, [`not_managed`](answer::not_managed),
    /// [`absent`](answer::absent).
    fn get_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Makes the load balancer, or changes it, as the Service and its targets ask. An empty
    /// set of targets is legal. A cloud that needs minutes answers in progress and is asked
    /// again, rather than holding the call. Answers: [`ready`](answer::ready),
    /// [`in_progress`](answer::in_progress), [`not_managed`](answer::not_managed).
    ///
    /// # Cancellation
    ///
    /// See [`Context`]: `ctx.check()?` before each change.
    fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Sets the targets of the load balancer and changes nothing else; never makes one. Answers:
    /// [`ready`](answer::ready), [`in_progress`](answer::in_progress), [`not_managed`](answer::not_managed),
    /// [`absent`](answer::absent).
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Removes the load balancer and every part of it. Only the Service's namespace, name and UID can be relied on: it
    /// may be gone from Kubernetes. Answers: [`absent`](answer::absent) says that no part is left,
    /// [`retained`](answer::retained), [`in_progress`](answer::in_progress), [`not_managed`](answer::not_managed).
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn delete_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Hands everything that this cluster owns in the cloud to `load_balancers`. `Ok` means that the
    /// list is whole; with `Err`, or a panic, the caller discards it. Served only with
    /// [`list`](v1::LoadBalancersCapability::list).
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

    /// Returns the changes that an ensure with these targets, or without targets a deletion, would make; empty: none.
    /// Changes nothing. Served only with [`plan`](v1::LoadBalancersCapability::plan).
    fn plan_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::PlanLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> impl Future<Output = Result<Vec<v1::PlannedChange>, Error>> + Send {
        let _ = (ctx, request, targets);
        std::future::ready(Err(Error::capability_disabled(
            "this provider does not plan load balancers",
        )))
    }
}
