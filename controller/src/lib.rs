//! Outrigger's cloud-controller-manager: everything that is Kubernetes, with the cloud behind a
//! gRPC contract.
//!
//! ```text
//!  kube::watch ──► kube::store ──► queue ──► loops (node, lifecycle, …) ──► core::plan ──► kube::patch
//!                                              │  ▲
//!                                              ▼  │
//!                                            provider (lookups, connection, state)
//! ```

pub mod app;
mod clock;
pub mod control_loop;
pub mod fence;
pub mod ipam;
pub mod kube;
pub mod leader;
pub mod lifecycle;
pub mod node;
mod node_effects;
pub mod open_files;
pub mod options;
pub mod provider;
pub mod queue;
pub mod route;
pub mod service;
pub mod serving;
pub mod telemetry;
pub mod volume;
pub mod webhook;

/// The version of this program, with upstream's `v` before it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod fixture;
