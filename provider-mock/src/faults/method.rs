//! The methods that faults and counters name: those of the contract.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use outrigger_api::v1;
use outrigger_api::{METHODS, MethodRequest};

/// A method of the contract, written as its name.
#[derive(Clone, Copy)]
pub struct Method(&'static outrigger_api::Method);

#[expect(
    missing_docs,
    non_upper_case_globals,
    reason = "they are spelled as in the contract, which documents them"
)]
impl Method {
    pub const Handshake: Self = Self::of::<v1::HandshakeRequest>();
    pub const GetStatus: Self = Self::of::<v1::GetStatusRequest>();
    pub const BatchGetInstances: Self = Self::of::<v1::BatchGetInstancesRequest>();
    pub const ListInstances: Self = Self::of::<v1::ListInstancesRequest>();
    pub const GetLoadBalancer: Self = Self::of::<v1::GetLoadBalancerRequest>();
    pub const EnsureLoadBalancer: Self = Self::of::<v1::EnsureLoadBalancerRequest>();
    pub const UpdateLoadBalancerNodes: Self = Self::of::<v1::UpdateLoadBalancerNodesRequest>();
    pub const DeleteLoadBalancer: Self = Self::of::<v1::DeleteLoadBalancerRequest>();
    pub const ListLoadBalancers: Self = Self::of::<v1::ListLoadBalancersRequest>();
    pub const PlanLoadBalancer: Self = Self::of::<v1::PlanLoadBalancerRequest>();
    pub const SyncNodeSet: Self = Self::of::<v1::SyncNodeSetRequest>();
    pub const ListRoutes: Self = Self::of::<v1::ListRoutesRequest>();
    pub const CreateRoute: Self = Self::of::<v1::CreateRouteRequest>();
    pub const DeleteRoute: Self = Self::of::<v1::DeleteRouteRequest>();
    pub const GetVolume: Self = Self::of::<v1::GetVolumeRequest>();
}

impl Method {
    /// The one of a request.
    pub const fn of<Q: MethodRequest>() -> Self {
        Self(Q::METHOD)
    }

    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// From the path of a gRPC request.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        METHODS.iter().find(|one| one.path == path).map(Self)
    }

    /// True if its requests have items, whose results can be errors.
    pub(crate) fn is_batch(self) -> bool {
        self == Self::BatchGetInstances
    }
}

impl Deref for Method {
    type Target = outrigger_api::Method;

    fn deref(&self) -> &outrigger_api::Method {
        self.0
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Method {}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

serde_by_text!(Method);

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let method = METHODS.iter().find(|one| one.name == text).map(Self);
        method.ok_or_else(|| {
            let names: Vec<_> = METHODS.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            format!("{text:?} is no method of the contract; use {names}")
        })
    }
}
