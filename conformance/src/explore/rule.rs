//! The rules that hold after every turn and at the end of a trace, with the sentences that ask for them.

use crate::case::Clause;

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A call ends as it should, with no error but an allowed one.
    Ended,
    /// READY has an address, and Get says the same.
    Get,
    /// Nothing is planned after an Ensure.
    Plan,
    /// A list is what was asked for.
    List,
    /// Ports and targets change without the addresses.
    Addresses,
    /// A repeated Ensure has the same answer.
    Again,
    /// A change leads to the state that a new Service has.
    Fresh,
    /// The same of a route.
    FreshRoutes,
    /// A deleted load balancer is ABSENT.
    Absent,
    /// The cloud is as it was before the trace.
    Left,
    /// The routes are those that were asked for.
    Routes,
    /// Lookups of machines and volumes are as before the trace.
    Lookups,
    /// The provider's process runs on.
    Process,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 13] = [
        Self::Ended,
        Self::Get,
        Self::Plan,
        Self::List,
        Self::Addresses,
        Self::Again,
        Self::Fresh,
        Self::FreshRoutes,
        Self::Absent,
        Self::Left,
        Self::Routes,
        Self::Lookups,
        Self::Process,
    ];

    /// Its name in reports, and a statement that is true of a provider that keeps it.
    pub const fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Ended => ("ended", "each call ends as the desired state asks"),
            Self::Get => ("get", "after Ensure, Get is READY with the same status"),
            Self::Plan => ("plan", "after Ensure, the plan of the same Ensure is empty"),
            Self::List => ("list", "a list has the load balancers that were asked for"),
            Self::Addresses => (
                "addresses",
                "the addresses stay when only ports or targets change",
            ),
            Self::Again => ("again", "an Ensure that is repeated has the same answer"),
            Self::Fresh => (
                "fresh",
                "a changed load balancer is as a new one with the same Service",
            ),
            Self::FreshRoutes => (
                "fresh",
                "a changed route is as a new one that leads to the same Node",
            ),
            Self::Absent => ("absent", "a deleted load balancer is ABSENT"),
            Self::Left => ("left", "after the last deletion the cloud is as before"),
            Self::Routes => ("routes", "a list has the routes that were asked for"),
            Self::Lookups => ("lookups", "lookups are as before the trace"),
            Self::Process => ("process", "the provider's process runs on"),
        }
    }

    /// The sentence of the contract.
    pub const fn clause(self) -> Clause {
        let (file, at, text) = match self {
            Self::Ended => (
                "common.proto",
                "",
                "leaves a state from which the next call converges",
            ),
            Self::Get => (
                "load_balancers.proto",
                "GetLoadBalancer",
                "State of the load balancer now. Changes nothing.",
            ),
            Self::Plan => (
                "load_balancers.proto",
                "PlanLoadBalancerResponse.changes",
                "Empty: nothing would change.",
            ),
            Self::List => (
                "load_balancers.proto",
                "ListLoadBalancers",
                "Everything this cluster owns in the cloud, for drift and orphans;",
            ),
            Self::Addresses => (
                "load_balancers.proto",
                "EnsureLoadBalancer",
                "A change of ports or targets MUST NOT change the addresses: clients know them.",
            ),
            Self::Again => (
                "common.proto",
                "",
                "carry the desired state, never a delta, and are idempotent by key: Service UID;",
            ),
            Self::Fresh => (
                "load_balancers.proto",
                "EnsureLoadBalancer",
                "Makes the load balancer, or changes it, to what the Service and its targets say.",
            ),
            Self::Absent | Self::Left => (
                "load_balancers.proto",
                "DeleteLoadBalancer",
                "Removes the load balancer and every part of it.",
            ),
            Self::FreshRoutes | Self::Routes => (
                "routes.proto",
                "CreateRoute",
                "Makes a route; one that exists as requested is a success.",
            ),
            Self::Lookups => (
                "instances.proto",
                "BatchGetInstances",
                "Existence, power state and metadata of many nodes together.",
            ),
            Self::Process => (
                "common.proto",
                "",
                "a provider MUST survive a duplicate all the same:",
            ),
        };
        Clause { file, at, text }
    }
}
