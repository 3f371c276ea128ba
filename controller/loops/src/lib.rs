//! The loops that keep a cloud and a cluster in sync: Nodes, their lifecycle, Services, routes, Pod CIDRs, serving
//! certificates of kubelets and volumes; and the work queue that they share.
//!
//! ```text
//!  store ─► event handlers ─► queue ─► control_loop ─► loop ─► core: plan ─► a call to the provider, a write to the API server
//! ```
//!
//! A loop decides nothing itself: `outrigger-core` does, and the loop carries it out. The binary subscribes each loop to
//! its stores once (`subscribe`), before they are filled, and hosts it ([`control_loop::host`]); each lease term makes a
//! new loop with empty memory. Every write and every call asks the fence of the term first, so that a process that no
//! longer leads changes nothing.
//!
//! A reader begins with [`queue`], then [`control_loop`], then [`csr`], the smallest whole loop. [`sweep`] is no loop: a
//! command of an operator runs it once. Never here: HTTP, gRPC, flags, and rules about when something is right.

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
