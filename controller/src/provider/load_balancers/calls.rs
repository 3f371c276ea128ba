//! The unary methods of `LoadBalancersService`.

use std::time::Duration;

use outrigger_api::v1::{self, load_balancers_service_client::LoadBalancersServiceClient};
use prost::Message;
use tonic::{Request, Response, Status};

use crate::provider::{
    call::{MessageLimits, Unary},
    details::Checked,
};

pub(super) fn client(
    channel: Checked,
    limits: MessageLimits,
) -> LoadBalancersServiceClient<Checked> {
    LoadBalancersServiceClient::new(channel)
        .max_decoding_message_size(limits.receive)
        .max_encoding_message_size(limits.send)
}

macro_rules! unary {
    ($call:ident, $method:ident, $request:ident -> $response:ident, changes: $changes:literal,
     without: $without:literal) => {
        #[doc = concat!("`LoadBalancersService.", stringify!($call), "`.")]
        pub(super) struct $call;

        impl Unary for $call {
            type Request = v1::$request;
            type Response = v1::$response;
            const NAME: &'static str = stringify!($call);
            const DEADLINE: Duration = Duration::from_mins(2);
            const CHANGES: bool = $changes;
            const IS_ABOUT_ONE_OBJECT: bool = true;
            const WITHOUT: &'static str = $without;

            async fn send(
                channel: Checked,
                limits: MessageLimits,
                request: Request<Self::Request>,
            ) -> Result<Response<Self::Response>, Status> {
                client(channel, limits).$method(request).await
            }

            fn bytes(request: &Self::Request) -> usize {
                request.encoded_len()
            }
        }
    };
}

unary!(
    GetLoadBalancer,
    get_load_balancer,
    GetLoadBalancerRequest -> GetLoadBalancerResponse,
    changes: false,
    without: "load balancers that were changed in the cloud are not found"
);
unary!(
    EnsureLoadBalancer,
    ensure_load_balancer,
    EnsureLoadBalancerRequest -> EnsureLoadBalancerResponse,
    changes: true,
    without: "no load balancer is made or changed; each Service is tried again with back-off"
);
unary!(
    DeleteLoadBalancer,
    delete_load_balancer,
    DeleteLoadBalancerRequest -> DeleteLoadBalancerResponse,
    changes: true,
    without: "no load balancer is deleted, and no Service with one ends; each is tried again with back-off"
);
unary!(
    PlanLoadBalancer,
    plan_load_balancer,
    PlanLoadBalancerRequest -> PlanLoadBalancerResponse,
    changes: false,
    without: "--plan does not show what would change in the cloud"
);
