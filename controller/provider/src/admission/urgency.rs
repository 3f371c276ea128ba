//! Classes of calls, and which of their calls goes first.

use outrigger_api::{
    MethodRequest,
    v1::{self, CallClass},
};

use crate::{LookupPurpose, VolumePurpose};

/// Classes of calls that are limited and paused, each for itself.
pub(crate) const CLASSES: [CallClass; 4] = [
    CallClass::Instances,
    CallClass::LoadBalancers,
    CallClass::Routes,
    CallClass::Volumes,
];

/// The value of the metric's label `class`.
pub(crate) const fn class_label(class: CallClass) -> &'static str {
    match class {
        CallClass::Unspecified => "none",
        CallClass::All => "all",
        CallClass::Instances => "instances",
        CallClass::LoadBalancers => "load_balancers",
        CallClass::Routes => "routes",
        CallClass::Volumes => "volumes",
    }
}

/// The purpose of a call, the most urgent first: where a limit leaves too little for all, the others
/// wait behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// [`VolumePurpose::Admission`]: a request to the API server waits.
    VolumeAdmission,
    /// [`LookupPurpose::Initialization`].
    Initialization,
    /// [`LookupPurpose::Lifecycle`].
    Lifecycle,
    /// To make or delete routes.
    Routes,
    /// To list routes: no change waits for it that is known. The provider's limit on calls in flight is on
    /// changes alone.
    RouteList,
    /// To change a load balancer.
    LoadBalancers,
    /// [`LookupPurpose::Refresh`].
    Refresh,
    /// To look at load balancers. The provider's limit on calls in flight is on changes alone, and a
    /// long list must not delay them.
    LoadBalancerChecks,
    /// [`VolumePurpose::Labels`].
    VolumeLabels,
}

impl Urgency {
    pub(super) const ALL: [Self; 9] = [
        Self::VolumeAdmission,
        Self::Initialization,
        Self::Lifecycle,
        Self::Routes,
        Self::RouteList,
        Self::LoadBalancers,
        Self::Refresh,
        Self::LoadBalancerChecks,
        Self::VolumeLabels,
    ];

    pub(super) const fn class(self) -> CallClass {
        match self {
            Self::Initialization | Self::Lifecycle | Self::Refresh => {
                v1::BatchGetInstancesRequest::METHOD.class
            }
            Self::LoadBalancers | Self::LoadBalancerChecks => {
                v1::EnsureLoadBalancerRequest::METHOD.class
            }
            Self::Routes | Self::RouteList => v1::ListRoutesRequest::METHOD.class,
            Self::VolumeAdmission | Self::VolumeLabels => v1::GetVolumeRequest::METHOD.class,
        }
    }

    /// Returns true if it counts as one of the calls in flight.
    pub(super) const fn is_counted(self) -> bool {
        !matches!(self, Self::LoadBalancerChecks | Self::RouteList)
    }
}

impl From<LookupPurpose> for Urgency {
    fn from(purpose: LookupPurpose) -> Self {
        match purpose {
            LookupPurpose::Initialization => Self::Initialization,
            LookupPurpose::Lifecycle => Self::Lifecycle,
            LookupPurpose::Refresh { .. } => Self::Refresh,
        }
    }
}

impl From<VolumePurpose> for Urgency {
    fn from(purpose: VolumePurpose) -> Self {
        match purpose {
            VolumePurpose::Admission => Self::VolumeAdmission,
            VolumePurpose::Labels => Self::VolumeLabels,
        }
    }
}
