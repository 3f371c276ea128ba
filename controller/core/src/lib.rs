//! The decisions of Outrigger's controller, and nothing else.
//!
//! Facts come in as small views ([`node::NodeView`], [`service::ServiceView`],
//! [`instance::Instance`]), decisions go out as values that can be compared. Nothing here waits,
//! reads a clock, draws a random number or knows a transport: the list of dependencies is the proof.
//!
//! ```text
//!  API JSON ─────────────────► NodeView ─┐
//!                                        ├─► plan(...) ──► Plan ──► (executed by the loops)
//!  provider ─► RawInstance ─► Instance ──┘
//!               (absent, not managed) ───► Lifecycle ──► Verdict
//!
//!  API JSON ─► ServiceView ─┐
//!  nodes ────► Targets ─────┼─► Progress ──► Step, Outcome
//!  provider ─► Answer ──────┘
//! ```

pub mod address;
pub mod answer;
pub mod api_time;
pub mod brake;
pub mod change;
pub mod claims;
pub mod class;
pub mod cluster_uid;
mod digest;
pub mod events;
pub mod initialize;
pub mod instance;
pub mod labels;
pub mod lease;
pub mod lifecycle;
pub mod node;
pub mod node_labels;
mod null;
pub mod ownership;
pub mod refresh;
pub mod selector;
pub mod service;
pub mod syntax;
pub mod targets;
pub mod text;

#[cfg(test)]
mod fixture;
