//! Write a cloud provider for Outrigger in Rust.
//!
//! A provider is a process beside Outrigger's controller that answers its questions about one
//! cloud. Implement [`Provider`] and a trait for each thing the cloud has, hand them to a
//! [`Server`], and let [`main`] run it:
//!
//! ```text
//!  controller ── gRPC over a Unix socket ──► Server ──► your Provider, Instances, LoadBalancers
//!                                            socket, handshake, health, checks of requests,
//!                                            deadlines, panics, errors, logs, shutdown
//! ```
//!
//! The server takes what every provider needs and no provider should write again; a vendor's code
//! sees checked, typed input and returns typed results. Nothing here knows a cloud, talks to
//! Kubernetes, or keeps state that a restart would lose.
//!
//! What happens to a handler when its caller goes away is said at [`Context`].

mod context;
mod error;
mod gather;
mod instances;
mod load_balancers;
mod logging;
mod node_sets;
mod probe;
mod provider;
mod runner;
mod serve_error;
mod server;
mod signals;
mod socket;

/// The contract itself, for what this crate passes through unchanged.
pub use outrigger_api::v1 as api;
pub use outrigger_api::v1::{
    Condition, EffectsCapability, ErrorReason, KubernetesEffects as Effects, KubernetesEvent, Node,
    PortStatus, Service, ServicePort, Taint,
};

pub use context::{Cluster, Context};
pub use error::Error;
pub use instances::{
    Address, Certainty, Instance, InstanceSink, Instances, InstancesCapability, Lookup,
    LookupPreference, Lookups, Outcome, PowerState, Query, View,
};
pub use load_balancers::{
    Answer, ChangeAction, Deleted, Ensured, Ingress, IngressPoint, IpMode, LoadBalancer,
    LoadBalancerSink, LoadBalancers, LoadBalancersCapability, Observed, OwnedLoadBalancer,
    PlanOperation, PlannedChange, ServiceName, Updated,
};
pub use logging::init_logging;
pub use node_sets::Targets;
pub use probe::{ProbeArgs, ProbeFailure, probe};
pub use provider::{
    CallClass, Dependency, Provider, ProviderInfo, ProviderStatus, Quota, RateLimit, Readiness,
};
pub use runner::{ServeArgs, main, main_with_args};
pub use serve_error::ServeError;
pub use server::Server;
pub use socket::{Endpoint, InvalidEndpoint, Listener, SocketError};

/// Any error that a vendor's start-up code may end with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;
