//! The list of load balancers that this cluster owns in the cloud, where a provider serves it.

use std::time::Duration;

use outrigger_api::v1;
use outrigger_core::text;
use tonic::{Request, Response, Status};

use crate::provider::{
    Error, Provider,
    admission::Urgency,
    call::{MessageLimits, Unary},
    details::Checked,
    gather::{Collector, Gathered, ListRequest, gather},
};

/// Names, ids and keys, in bytes.
const NAME: usize = 253;

/// A load balancer that carries this cluster's tag, in texts fit for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedLoadBalancer {
    /// Id in the cloud.
    pub id: Box<str>,
    /// Name in the cloud.
    pub name: Box<str>,
    /// Its owner; none where the tag is missing.
    pub service: Option<Owner>,
}

/// The Service that a load balancer was made for, by its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `metadata.namespace`, for people.
    pub namespace: Box<str>,
    /// `metadata.name`, for people.
    pub name: Box<str>,
    /// `metadata.uid`: the key.
    pub uid: Box<str>,
}

impl Collector for Vec<OwnedLoadBalancer> {
    type Entry = v1::OwnedLoadBalancer;

    fn take(&mut self, entry: v1::OwnedLoadBalancer) -> bool {
        self.push(entry.into());
        true
    }
}

/// `LoadBalancersService.ListLoadBalancers`, gathered.
struct ListLoadBalancers;

impl Unary for ListLoadBalancers {
    type Request = ListRequest<v1::ListLoadBalancersRequest, Vec<OwnedLoadBalancer>>;
    type Response = Gathered<Vec<OwnedLoadBalancer>>;
    const NAME: &'static str = "ListLoadBalancers";
    const DEADLINE: Duration = Duration::from_mins(5);
    const WITHOUT: &'static str = "load balancers that no Service wants are not found";

    async fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Self::Request>,
    ) -> Result<Response<Self::Response>, Status> {
        let path = "/cloudprovider.v1.LoadBalancersService/ListLoadBalancers";
        gather(channel, limits, path, "ListLoadBalancersResponse", request).await
    }
}

impl Provider {
    /// Lists every load balancer that this cluster owns in the cloud, all of them or an error. For
    /// reports: nothing may be deleted by it.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list_load_balancers(&self) -> Result<Vec<OwnedLoadBalancer>, Error> {
        let rpc = ListLoadBalancers::NAME;
        let (permit, session) = self
            .admit::<ListLoadBalancers>(Urgency::LoadBalancerChecks)
            .await?;
        let offered = session.load_balancers.as_ref();
        if !offered.is_some_and(|offered| offered.list) {
            return Err(Error::NotOffered { rpc });
        }
        let call = self.shared.call::<ListLoadBalancers>(
            &permit,
            &self.preconditions,
            &session,
            |_, context| ListRequest {
                message: v1::ListLoadBalancersRequest {
                    context: Some(context),
                },
                collector: Vec::new(),
            },
        );
        call.await?.whole(rpc)
    }
}

impl From<v1::OwnedLoadBalancer> for OwnedLoadBalancer {
    fn from(owned: v1::OwnedLoadBalancer) -> Self {
        let shown = |raw: &str| text::cut(raw, NAME).into();
        let identity = owned.identity.unwrap_or_default();
        Self {
            id: shown(&identity.id),
            name: shown(&identity.name),
            service: owned.service.map(|service| Owner {
                namespace: shown(&service.namespace),
                name: shown(&service.name),
                uid: shown(&service.uid),
            }),
        }
    }
}
