//! Outrigger's cloud-controller-manager: everything that is Kubernetes, with the cloud behind a
//! gRPC contract.
//!
//! ```text
//!  options ─► app ─► kubernetes (watches, stores, leader) ─► loops ─► provider-client
//! ```
//!
//! This crate is the command line and the wiring; the crates below it do the work.

pub mod app;
pub mod command;
pub mod open_files;
pub mod options;
