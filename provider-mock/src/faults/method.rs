//! Methods that faults and counters know.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A method of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Method {
    /// `ProviderService.Handshake`.
    Handshake,
    /// `ProviderService.GetStatus`.
    GetStatus,
    /// `InstancesService.BatchGetInstances`.
    BatchGetInstances,
    /// `InstancesService.ListInstances`.
    ListInstances,
    /// `NodeSetsService.SyncNodeSet`.
    SyncNodeSet,
    /// `LoadBalancersService.GetLoadBalancer`.
    GetLoadBalancer,
    /// `LoadBalancersService.EnsureLoadBalancer`.
    EnsureLoadBalancer,
    /// `LoadBalancersService.UpdateLoadBalancerNodes`.
    UpdateLoadBalancerNodes,
    /// `LoadBalancersService.DeleteLoadBalancer`.
    DeleteLoadBalancer,
    /// `LoadBalancersService.ListLoadBalancers`.
    ListLoadBalancers,
    /// `LoadBalancersService.PlanLoadBalancer`.
    PlanLoadBalancer,
    /// `RoutesService.ListRoutes`.
    ListRoutes,
    /// `RoutesService.BatchCreateRoutes`.
    BatchCreateRoutes,
    /// `RoutesService.BatchDeleteRoutes`.
    BatchDeleteRoutes,
    /// `VolumesService.BatchGetVolumes`.
    BatchGetVolumes,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Handshake,
        Self::GetStatus,
        Self::BatchGetInstances,
        Self::ListInstances,
        Self::SyncNodeSet,
        Self::GetLoadBalancer,
        Self::EnsureLoadBalancer,
        Self::UpdateLoadBalancerNodes,
        Self::DeleteLoadBalancer,
        Self::ListLoadBalancers,
        Self::PlanLoadBalancer,
        Self::ListRoutes,
        Self::BatchCreateRoutes,
        Self::BatchDeleteRoutes,
        Self::BatchGetVolumes,
    ];

    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "Handshake",
            Self::GetStatus => "GetStatus",
            Self::BatchGetInstances => "BatchGetInstances",
            Self::ListInstances => "ListInstances",
            Self::SyncNodeSet => "SyncNodeSet",
            Self::GetLoadBalancer => "GetLoadBalancer",
            Self::EnsureLoadBalancer => "EnsureLoadBalancer",
            Self::UpdateLoadBalancerNodes => "UpdateLoadBalancerNodes",
            Self::DeleteLoadBalancer => "DeleteLoadBalancer",
            Self::ListLoadBalancers => "ListLoadBalancers",
            Self::PlanLoadBalancer => "PlanLoadBalancer",
            Self::ListRoutes => "ListRoutes",
            Self::BatchCreateRoutes => "BatchCreateRoutes",
            Self::BatchDeleteRoutes => "BatchDeleteRoutes",
            Self::BatchGetVolumes => "BatchGetVolumes",
        }
    }

    /// From the path of a gRPC request.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix("/cloudprovider.v1.")?.split_once('/')?;
        let found = Self::ALL
            .into_iter()
            .find(|known| known.as_str() == method)?;
        (service == found.service()).then_some(found)
    }

    /// The path of its gRPC requests.
    pub(crate) fn path(self) -> String {
        format!("/cloudprovider.v1.{}/{self}", self.service())
    }

    fn service(self) -> &'static str {
        match self {
            Self::Handshake | Self::GetStatus => "ProviderService",
            Self::BatchGetInstances | Self::ListInstances => "InstancesService",
            Self::SyncNodeSet => "NodeSetsService",
            Self::GetLoadBalancer
            | Self::EnsureLoadBalancer
            | Self::UpdateLoadBalancerNodes
            | Self::DeleteLoadBalancer
            | Self::ListLoadBalancers
            | Self::PlanLoadBalancer => "LoadBalancersService",
            Self::ListRoutes | Self::BatchCreateRoutes | Self::BatchDeleteRoutes => "RoutesService",
            Self::BatchGetVolumes => "VolumesService",
        }
    }

    /// Whether single items of its answers can be errors.
    pub(crate) fn has_items(self) -> bool {
        matches!(
            self,
            Self::BatchGetInstances
                | Self::UpdateLoadBalancerNodes
                | Self::BatchCreateRoutes
                | Self::BatchDeleteRoutes
                | Self::BatchGetVolumes
        )
    }

    /// Whether an answer, or a result of it, is about the load balancer of one Service.
    pub(crate) fn is_about_one_service(self) -> bool {
        matches!(
            self,
            Self::GetLoadBalancer
                | Self::EnsureLoadBalancer
                | Self::UpdateLoadBalancerNodes
                | Self::DeleteLoadBalancer
        )
    }

    pub(crate) fn is_about_services(self) -> bool {
        self.service() == "LoadBalancersService"
    }

    /// Whether its requests name Services or routes.
    pub(crate) fn has_subjects(self) -> bool {
        self.is_about_services()
            || matches!(self, Self::BatchCreateRoutes | Self::BatchDeleteRoutes)
    }

    pub(crate) fn is_about_routes(self) -> bool {
        self.service() == "RoutesService"
    }

    pub(crate) fn is_about_volumes(self) -> bool {
        self.service() == "VolumesService"
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|method| method.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("{text:?} is no method of the contract that the mock serves; use {known}")
            })
    }
}
