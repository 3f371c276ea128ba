//! The decisions of Outrigger's controller, and nothing else.
//!
//! ```text
//!  API JSON ─► NodeView ────┐
//!  provider ─► RawInstance ─┴─► Instance, Lookup ─┬─► node::plan ───────► NodePlan
//!                                                 ├─► node::lifecycle ──► LifecycleDecision
//!                                                 ├─► node::maintenance ► MaintenanceWrite
//!                                                 ├─► ipam ─────────────► PodCidrPlan
//!                                                 └─► csr ──────────────► approved, or why not
//!  API JSON ─► ServiceView ─┐
//!  nodes ────► Targets ─────┼─► service::plan ──────────────────────────► Step, Consequence
//!  provider ─► RawAnswer ───┘
//!  provider ─► RawRoute ─────────► route ───────────────────────────────► RouteStep
//!  provider ─► RawTopology ──────► volume ──────────────────────────────► VolumePatch
//!  API JSON ─► LeaseRecord ──────► lease ───────────────────────────────► Decision
//! ```
//!
//! The protocol is the same everywhere. A caller reads an object of the API into a view ([`node::NodeView`],
//! [`service::ServiceView`], [`volume::VolumeView`], [`csr::CsrView`]), passes the provider's answer through a check that
//! turns plain strings into a value that is legal in Kubernetes, or into an error of that one item, and calls a plan. The
//! plan is a value that can be compared. The caller carries it out, and applies it to its view (`applied_to`) to decide the
//! next step without a wait for the watch.
//!
//! The callers are the loops (`outrigger-loops`) for all plans, `outrigger-kube` for views, patches and the election, and
//! `outrigger-provider` for the checks of answers.
//!
//! Nothing here waits, reads a clock, draws a random number, logs, or knows a transport: time and chance come in as
//! arguments, and the list of dependencies is the proof. State that lives longer than one call
//! ([`node::lifecycle::Lifecycle`], [`service::plan::Progress`], [`ipam::Allocator`], [`route::RouteTable`]) is in values
//! that the caller keeps for one lease term; a restart may forget each of them without harm.

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
