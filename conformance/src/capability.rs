//! The parts of the contract that a provider may declare.

use clap::ValueEnum as _;
use outrigger_api::{METHODS, Method, v1::HandshakeResponse};

/// A part of the contract that a provider declares at handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Capability {
    /// The transport and `ProviderService`: every provider.
    Core,
    /// `Capabilities.instances`.
    Instances,
    /// `InstancesCapability.list`.
    InstancesList,
    /// `Capabilities.load_balancers`.
    LoadBalancers,
    /// `LoadBalancersCapability.list`.
    LoadBalancersList,
    /// `LoadBalancersCapability.options`.
    LoadBalancersOptions,
    /// `LoadBalancersCapability.plan`.
    LoadBalancersPlan,
    /// `Capabilities.node_sets`.
    NodeSets,
    /// `Capabilities.routes`.
    Routes,
    /// `Capabilities.volumes`.
    Volumes,
}

impl Capability {
    /// The part that a method belongs to.
    pub fn of(method: &Method) -> Self {
        let mut all = Self::value_variants().iter().copied();
        let is_of = |one: &Self| one.declared_by() == method.declared_by;
        all.find(is_of).unwrap_or(Self::Core)
    }

    /// The field of the handshake that declares it, as the table of methods names it.
    pub const fn declared_by(self) -> &'static str {
        match self {
            Self::Core => "every provider",
            Self::Instances => "Capabilities.instances",
            Self::InstancesList => "InstancesCapability.list",
            Self::LoadBalancers => "Capabilities.load_balancers",
            Self::LoadBalancersList => "LoadBalancersCapability.list",
            Self::LoadBalancersOptions => "LoadBalancersCapability.options",
            Self::LoadBalancersPlan => "LoadBalancersCapability.plan",
            Self::NodeSets => "Capabilities.node_sets",
            Self::Routes => "Capabilities.routes",
            Self::Volumes => "Capabilities.volumes",
        }
    }

    /// True if a handshake declares it.
    pub fn is_declared(self, handshake: &HandshakeResponse) -> bool {
        let declared = handshake.capabilities.clone().unwrap_or_default();
        let is_of = |method: &&Method| method.declared_by == self.declared_by();
        let method = METHODS.iter().find(is_of);
        match self {
            Self::Core => true,
            // It has no method of its own.
            Self::LoadBalancersOptions => {
                let load_balancers = declared.load_balancers;
                load_balancers.is_some_and(|offered| offered.options.is_some())
            }
            _ => method.is_some_and(|method| (method.is_declared)(&declared)),
        }
    }
}
