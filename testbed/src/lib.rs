//! A real etcd and kube-apiserver for tests, measurements and the demo.
//!
//! ```text
//!  test / bench / demo ──► ControlPlane ──► kube-apiserver ──► etcd
//!          │                    ▲            (built from their Go modules)
//!          └──► FaultProxy ─────┘
//! ```
//!
//! No API server is imitated here: a controller is tested against the program that it will meet.
//! Faults that a healthy API server does not show on demand (410, 429, cut watches, silence) come
//! from a proxy in front of it.
//!
//! - [`binaries`] finds or builds the programs,
//! - [`ControlPlane`] runs them, [`shared()`] runs one for all tests of a process,
//! - [`nodes`] registers nodes as kubelets do,
//! - [`services`] makes Services and measures how long they wait for their addresses,
//! - [`provider_check`] runs a provider in any language behind the controller,
//! - [`pair`] is a provider with the controller in front of it, [`check`] the steps of a check of both,
//! - [`faults`] stands in front of the API server,
//! - [`prometheus`] reads a scrape as Prometheus does,
//! - [`demo`] is `cargo demo`.
//!
//! No process outlives its owner, even one that is killed: see [`ControlPlane`].

pub mod binaries;
pub mod check;
pub mod cli;
mod control_plane;
mod creation;
pub mod demo;
mod error;
pub mod faults;
mod follow;
mod identity;
pub mod nodes;
pub mod pair;
pub mod process;
pub mod prometheus;
pub mod provider_check;
pub mod providers;
pub mod services;
mod shared;
pub mod signals;
pub mod wire;

pub use check::Passed;
pub use control_plane::{ControlPlane, MASTERS, Options};
pub use error::Error;
pub use shared::shared;

/// The results of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
