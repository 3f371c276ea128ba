use outrigger_api::v1;
use tokio::sync::mpsc;

use super::OwnedLoadBalancer;
use crate::gather::{Gather, Gathered};
use crate::{Context, Error};

/// Where [`list_load_balancers`](crate::LoadBalancers::list_load_balancers) puts what it finds; as
/// [`InstanceSink`](crate::InstanceSink).
#[derive(Debug)]
pub struct LoadBalancerSink(Gather<v1::OwnedLoadBalancer>);

impl Gathered for v1::OwnedLoadBalancer {
    type Message = v1::ListLoadBalancersResponse;

    fn message(items: Vec<Self>, complete: bool) -> Self::Message {
        v1::ListLoadBalancersResponse { items, complete }
    }

    fn described(&self) -> String {
        let id = self.identity.as_ref().map(|identity| identity.id.as_str());
        format!("load balancer {:?}", id.unwrap_or_default())
    }
}

impl LoadBalancerSink {
    /// A sink for messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<v1::ListLoadBalancersResponse, tonic::Status>>,
        max_bytes: usize,
    ) -> Self {
        Self(Gather::new(ctx, messages, max_bytes))
    }

    /// Hands over one load balancer. Waits while the caller is behind; fails once it has gone, or if
    /// the load balancer alone is larger than any message the caller accepts. Pass the failure on with
    /// `?`.
    ///
    /// # Cancellation
    ///
    /// Safe to drop only together with the whole list: a load balancer may be lost.
    pub async fn send(&mut self, load_balancer: OwnedLoadBalancer) -> Result<(), Error> {
        self.0.send(load_balancer.into_wire()).await
    }

    /// Hands over a page of load balancers, in order; as [`send`](Self::send).
    pub async fn send_all(
        &mut self,
        load_balancers: impl IntoIterator<Item = OwnedLoadBalancer, IntoIter: Send> + Send,
    ) -> Result<(), Error> {
        for load_balancer in load_balancers {
            self.send(load_balancer).await?;
        }
        Ok(())
    }

    /// The list is whole: sends the rest, marked as complete.
    pub(crate) async fn complete(self) -> Result<(), Error> {
        self.0.complete().await
    }
}
