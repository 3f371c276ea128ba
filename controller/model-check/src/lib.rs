//! Searches all states that two replicas of the controller reach with a few faults, in every order, for one in which the
//! decisions of [`outrigger_core`] do harm or do not come to rest.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a model that contradicts itself has to stop; no part of it is in the controller"
)]

mod hashed;
mod lease;
mod nodes;
mod pod_cidrs;
mod routes;
mod scope;
mod search;
mod services;
mod store;

pub use scope::Scope;
pub use search::{Counterexample, Report};

/// The models, by name.
pub const MODELS: [&str; 5] = ["services", "nodes", "pod-cidrs", "routes", "lease"];

/// Searches the model of this name; none if there is no such model.
pub fn check(model: &str, scope: Scope, limit: usize) -> Option<Report> {
    Some(match model {
        "routes" => search::search("routes", &routes::Routes::new(scope), limit),
        "lease" => search::search("lease", &lease::Lease::new(scope), limit),
        "nodes" => search::search("nodes", &nodes::Nodes::new(scope), limit),
        "pod-cidrs" => search::search("pod-cidrs", &pod_cidrs::PodCidrs::new(scope), limit),
        "services" => search::search("services", &services::Services::new(scope), limit),
        _ => return None,
    })
}
