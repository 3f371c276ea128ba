//! The faults: which there are, and where each is.

use std::time::Duration;

use fastrand::Rng;

use super::{
    api_server, balancers, lookups, nodes, policies,
    rule::{INITIALIZED, NOTICED, ROUTE, SERVED, SLACK, SLOWLY_INITIALIZED},
    scene::Scene,
};
use crate::stage::Stage;

/// Descriptors that a controller may open with [`Fault::FewFiles`]: some more than it has open when all is quiet.
pub(super) const FEW_FILES: u32 = 64;

/// A part of the work. At most one fault of each goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Lookups,
    Instances,
    Balancers,
    Routes,
    ApiServer,
}

impl Area {
    pub(super) const ALL: [Self; 5] = [
        Self::Lookups,
        Self::Instances,
        Self::Balancers,
        Self::Routes,
        Self::ApiServer,
    ];
}

/// Something that is wrong as long as the faults go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Each lookup hangs that is about one Node, which registers with others.
    HangingLookup,
    /// The provider looks Nodes up one after the other: all that register at once take longer than a call may.
    SlowLookups,
    /// The provider asks for a pause of lookups, while a Node that was shut down is ready again.
    PausedLookups,
    /// The provider finds the instance of a Node by its ID in another spelling, and the Node gets a wrong address.
    SpelledInstance,
    /// One changing call at a time, and the Nodes of one load balancer in each: all of them get other Nodes.
    OneCall,
    /// An edit is `IN_PROGRESS`, with an empty status.
    EmptyInProgress,
    /// The comparison of one load balancer with the cloud hangs.
    HangingComparison,
    /// Routes are listed with names, IDs or next hops in another spelling.
    SpelledRoutes,
    /// The routes of a Node turn into blackholes that name no target.
    EmptyBlackhole,
    /// Nodes are deleted in a burst, while a list of all Nodes is on its way.
    Ghosts,
    /// The open connections to the API server go dead without an end; new ones work.
    DeadConnections,
    /// A policy refuses each write of the controller to one Node.
    NodePolicy,
    /// A policy refuses each write of the controller to one Service.
    ServicePolicy,
    /// A policy drops the annotations of Leases.
    LeasePolicy,
    /// The controller's process may open few files, and many Services change at once.
    FewFiles,
}

impl Fault {
    pub(super) const ALL: [Self; 15] = [
        Self::HangingLookup,
        Self::SlowLookups,
        Self::PausedLookups,
        Self::SpelledInstance,
        Self::OneCall,
        Self::EmptyInProgress,
        Self::HangingComparison,
        Self::SpelledRoutes,
        Self::EmptyBlackhole,
        Self::Ghosts,
        Self::DeadConnections,
        Self::NodePolicy,
        Self::ServicePolicy,
        Self::LeasePolicy,
        Self::FewFiles,
    ];

    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns `None` for the families of the other drill.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|fault| fault.name() == name.trim())
    }

    pub(super) const fn area(self) -> Area {
        match self {
            Self::HangingLookup | Self::SlowLookups | Self::PausedLookups => Area::Lookups,
            Self::SpelledInstance => Area::Instances,
            Self::OneCall | Self::EmptyInProgress | Self::HangingComparison => Area::Balancers,
            Self::SpelledRoutes | Self::EmptyBlackhole | Self::Ghosts => Area::Routes,
            Self::DeadConnections
            | Self::NodePolicy
            | Self::ServicePolicy
            | Self::LeasePolicy
            | Self::FewFiles => Area::ApiServer,
        }
    }

    /// How long it must go on, so that a goal that waits for its end exceeds its bound.
    pub(super) fn lasts(self) -> Duration {
        match self {
            Self::HangingLookup => INITIALIZED,
            Self::SlowLookups => SLOWLY_INITIALIZED,
            Self::DeadConnections => NOTICED + SERVED,
            Self::NodePolicy | Self::ServicePolicy => policies::TOLD,
            Self::EmptyBlackhole | Self::Ghosts | Self::SpelledRoutes => ROUTE + SLACK,
            _ => SERVED + SLACK,
        }
    }

    /// Flags of a mock that has it.
    pub(super) fn mock_flags(self, random: &mut Rng) -> Vec<String> {
        let mut one_of =
            |all: &[&str]| format!("--route-target={}", all[random.usize(..all.len())]);
        match self {
            Self::OneCall => vec![
                "--lb-max-in-flight=1".to_owned(),
                "--lb-max-services-per-update=1".to_owned(),
            ],
            // Also a Node that is new is looked up at once.
            Self::PausedLookups => vec!["--visibility-delay=1s".to_owned()],
            Self::SpelledRoutes => vec![one_of(&["capitals", "other-id", "other-hop"])],
            Self::Ghosts => vec![one_of(&["provider-id", "next-hop"])],
            _ => Vec::new(),
        }
    }

    /// Begins it, and changes what it shall and shall not delay.
    pub(super) async fn play(self, scene: &Scene) {
        match self {
            Self::HangingLookup => lookups::hang(scene).await,
            Self::SlowLookups => lookups::slow_down(scene).await,
            Self::PausedLookups => lookups::pause(scene).await,
            Self::SpelledInstance => lookups::spell(scene).await,
            Self::OneCall => balancers::roll_out(scene).await,
            Self::EmptyInProgress => balancers::progress(scene).await,
            Self::HangingComparison => balancers::compare(scene).await,
            Self::SpelledRoutes => nodes::come_and_go(scene).await,
            Self::EmptyBlackhole => nodes::strand(scene).await,
            Self::Ghosts => nodes::leave_in_a_burst(scene).await,
            Self::DeadConnections => api_server::die(scene).await,
            Self::NodePolicy => policies::refuse_node(scene).await,
            Self::ServicePolicy => policies::refuse_service(scene).await,
            Self::LeasePolicy => policies::strip_leases(scene).await,
            Self::FewFiles => api_server::change_much(scene).await,
        }
    }

    /// Takes away what is outside of the mock and the proxy, and judges what it has left.
    pub(super) async fn end(self, stage: &Stage, scene: &Scene) {
        match self {
            Self::NodePolicy => policies::allow_node(stage, scene).await,
            Self::ServicePolicy => policies::allow_service(stage, scene).await,
            Self::LeasePolicy => policies::keep_leases(scene).await,
            Self::FewFiles => api_server::had_files(stage),
            _ => {}
        }
    }
}
