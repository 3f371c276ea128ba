//! The calls whose answer is a stream.

use std::time::Duration;

use outrigger_api::v1::{
    self, instances_service_client::InstancesServiceClient,
    load_balancers_service_client::LoadBalancersServiceClient,
    routes_service_client::RoutesServiceClient,
};
use tonic::Streaming;

use super::{CallError, Client};

/// A stream that ended without an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// All entries, in their order.
    pub entries: Vec<T>,
    /// Whether each message had `complete`.
    pub completes: Vec<bool>,
    /// Bytes of the largest message.
    pub largest_message: usize,
}

impl<T> Listed<T> {
    /// `complete` is on the last message and on no other.
    pub fn is_complete(&self) -> bool {
        match self.completes.split_last() {
            Some((last, before)) => *last && !before.contains(&true),
            None => false,
        }
    }
}

/// The deadline of a list, and the longest time between two of its messages.
const LIST: Duration = Duration::from_mins(5);
const BETWEEN: Duration = Duration::from_mins(1);

macro_rules! lists {
    ($($(#[$docs:meta])* $method:ident: $rpc:literal, $client:ident, $request:ty => $message:ty, $entries:ident: $entry:ty;)*) => {
        impl Client {
            $(
                $(#[$docs])*
                pub async fn $method(&self, request: $request) -> Result<Listed<$entry>, CallError> {
                    let (deadline, request) = self.timed(LIST, request);
                    let mut client = $client::new(self.channel.clone());
                    let stream = self.awaited($rpc, deadline, client.$method(request)).await?;
                    let messages = self.messages($rpc, stream.into_inner()).await?;
                    let sizes = messages.iter().map(prost::Message::encoded_len);
                    let largest_message = sizes.max().unwrap_or_default();
                    let completes = messages.iter().map(|message: &$message| message.complete).collect();
                    let entries = messages.into_iter().flat_map(|message| message.$entries).collect();
                    Ok(Listed { entries, completes, largest_message })
                }
            )*
        }
    };
}

lists! {
    /// `InstancesService.ListInstances`.
    list_instances: "ListInstances", InstancesServiceClient, v1::ListInstancesRequest => v1::ListInstancesResponse, instances: v1::Instance;
    /// `LoadBalancersService.ListLoadBalancers`.
    list_load_balancers: "ListLoadBalancers", LoadBalancersServiceClient, v1::ListLoadBalancersRequest => v1::ListLoadBalancersResponse, load_balancers: v1::OwnedLoadBalancer;
    /// `RoutesService.ListRoutes`.
    list_routes: "ListRoutes", RoutesServiceClient, v1::ListRoutesRequest => v1::ListRoutesResponse, routes: v1::Route;
}

impl Client {
    /// `LoadBalancersService.UpdateLoadBalancerNodes`: all results of the stream.
    pub async fn update_load_balancer_nodes(
        &self,
        request: v1::UpdateLoadBalancerNodesRequest,
    ) -> Result<Vec<v1::UpdateLoadBalancerNodesResponse>, CallError> {
        const RPC: &str = "UpdateLoadBalancerNodes";
        let (deadline, request) = self.timed(LIST, request);
        let mut client = LoadBalancersServiceClient::new(self.channel.clone());
        let stream = client.update_load_balancer_nodes(request);
        let stream = self.awaited(RPC, deadline, stream).await?;
        let results = self.messages(RPC, stream.into_inner()).await?;
        for result in &results {
            self.ledger.see(result);
        }
        Ok(results)
    }

    /// All messages of a stream up to its end, which must not be an error.
    pub(super) async fn messages<M>(
        &self,
        rpc: &'static str,
        mut stream: Streaming<M>,
    ) -> Result<Vec<M>, CallError>
    where
        M: Send,
    {
        if let Some(reads) = &self.reads {
            // Where its other end is gone, the stream is read.
            let _ = reads.clone().wait_for(|reads| *reads).await;
        }
        let mut messages = Vec::new();
        while let Some(message) = self.awaited(rpc, BETWEEN, stream.message()).await? {
            messages.push(message);
        }
        Ok(messages)
    }
}
