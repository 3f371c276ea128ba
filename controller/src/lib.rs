//! Outrigger's cloud-controller-manager: everything that is Kubernetes, with the cloud behind a
//! gRPC contract.
//!
//! ```text
//!  options ─► app ─► kube (watches, stores, leader) ─► loops ─► provider
//! ```
//!
//! This crate is the command line, the wiring and the HTTPS server; the crates below it do the work.

pub mod app;
pub mod command;
pub mod options;
pub mod server;
pub mod webhook;
