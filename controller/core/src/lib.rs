//! The decisions of Outrigger's controller, and nothing else.
//!
//! Facts come in as small views ([`node::NodeView`], [`service::ServiceView`],
//! [`node::instance::Instance`]), decisions go out as values that can be compared. Nothing here waits,
//! reads a clock, draws a random number or knows a transport: the list of dependencies is the proof.
//!
//! ```text
//!  API JSON ─────────────────► NodeView ─┐
//!                                        ├─► plan(...) ──► Plan ──► (executed by the loops)
//!  provider ─► RawInstance ─► Instance ──┘
//!               (absent, not managed) ───► Lifecycle ──► LifecycleDecision
//!
//!  API JSON ─► ServiceView ─┐
//!  nodes ────► Targets ─────┼─► Progress ──► Step, Consequence
//!  provider ─► Answer ──────┘
//! ```

pub mod annotations;
mod api_time;
pub mod cidr;
pub mod cluster_uid;
pub mod condition;
pub mod csr;
pub mod decision;
mod digest;
pub mod effects;
pub mod error_class;
pub mod event;
pub mod fault;
pub mod forbidden_addresses;
pub mod go_duration;
pub mod ipam;
pub mod lease;
mod metadata;
pub mod node;
mod null;
pub mod repairs;
pub mod route;
pub mod selector;
pub mod service;
pub mod string_map;
pub mod syntax;
pub mod targets;
pub mod text;
pub mod volume;

#[cfg(test)]
mod fixture;
