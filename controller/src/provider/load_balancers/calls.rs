//! The unary methods of `LoadBalancersService`.

use std::time::Duration;

use outrigger_api::v1;
use prost::Message;

use crate::provider::{call::unary, raw::ONE_OBJECT};

/// A call about one load balancer.
macro_rules! about_one {
    ($call:ident($request:ident) -> $response:ident, changes: $changes:literal,
     without: $without:literal) => {
        unary!($call = LoadBalancersService($request) -> $response {
            const DEADLINE: Duration = Duration::from_mins(2);
            const CHANGES: bool = $changes;
            const RECEIVE: usize = ONE_OBJECT;
            const IS_ABOUT_ONE_OBJECT: bool = true;
            const WITHOUT: &'static str = $without;

            fn bytes(request: &Self::Request) -> usize {
                request.encoded_len()
            }
        });
    };
}

about_one!(
    GetLoadBalancer(GetLoadBalancerRequest) -> GetLoadBalancerResponse,
    changes: false,
    without: "load balancers that were changed in the cloud are not found"
);
about_one!(
    EnsureLoadBalancer(EnsureLoadBalancerRequest) -> EnsureLoadBalancerResponse,
    changes: true,
    without: "no load balancer is made or changed; each Service is tried again with back-off"
);
about_one!(
    DeleteLoadBalancer(DeleteLoadBalancerRequest) -> DeleteLoadBalancerResponse,
    changes: true,
    without: "no load balancer is deleted, and no Service with one ends; each is tried again with back-off"
);
about_one!(
    PlanLoadBalancer(PlanLoadBalancerRequest) -> PlanLoadBalancerResponse,
    changes: false,
    without: "--plan does not show what would change in the cloud"
);
