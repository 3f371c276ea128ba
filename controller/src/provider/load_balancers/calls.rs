//! The unary methods of `LoadBalancersService`.

use std::time::Duration;

use outrigger_api::v1::{self, load_balancers_service_client::LoadBalancersServiceClient};
use prost::Message;

use crate::provider::{
    call::{MessageLimits, unary},
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

/// A call about one load balancer.
macro_rules! about_one {
    ($call:ident, $method:ident($request:ident) -> $response:ident, changes: $changes:literal,
     without: $without:literal) => {
        unary!($call = LoadBalancersServiceClient.$method($request) -> $response {
            const DEADLINE: Duration = Duration::from_mins(2);
            const CHANGES: bool = $changes;
            const IS_ABOUT_ONE_OBJECT: bool = true;
            const WITHOUT: &'static str = $without;

            fn bytes(request: &Self::Request) -> usize {
                request.encoded_len()
            }
        });
    };
}

about_one!(
    GetLoadBalancer,
    get_load_balancer(GetLoadBalancerRequest) -> GetLoadBalancerResponse,
    changes: false,
    without: "load balancers that were changed in the cloud are not found"
);
about_one!(
    EnsureLoadBalancer,
    ensure_load_balancer(EnsureLoadBalancerRequest) -> EnsureLoadBalancerResponse,
    changes: true,
    without: "no load balancer is made or changed; each Service is tried again with back-off"
);
about_one!(
    DeleteLoadBalancer,
    delete_load_balancer(DeleteLoadBalancerRequest) -> DeleteLoadBalancerResponse,
    changes: true,
    without: "no load balancer is deleted, and no Service with one ends; each is tried again with back-off"
);
about_one!(
    PlanLoadBalancer,
    plan_load_balancer(PlanLoadBalancerRequest) -> PlanLoadBalancerResponse,
    changes: false,
    without: "--plan does not show what would change in the cloud"
);
