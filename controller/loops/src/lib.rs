//! The loops that keep a cloud and a cluster in sync: nodes, their lifecycle, Services, routes, Pod CIDRs, serving
//! certificates of kubelets and volumes; and the work queue that they share.
//!
//! ```text
//!  store ─► event handlers ─► queue ─► control_loop ─► loop ─► core: plan ─► a call to the provider, a write to the API server
//! ```
//!
//! A loop decides nothing itself: `outrigger-core` does, and the loop carries it out.

pub mod context;
pub mod control_loop;
pub mod csr;
pub mod ipam;
pub mod lifecycle;
pub mod node;
mod node_effects;
pub mod not_managed;
pub mod queue;
pub mod route;
pub mod service;
pub mod sweep;
pub mod volume;

#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;
