//! A real etcd and kube-apiserver for tests, measurements and the demo.
//!
//! ```text
//!  test / bench / demo ──► ControlPlane ──► kube-apiserver ──► etcd
//!          │                    ▲            (built from their Go modules)
//!          └──► FaultProxy ─────┘
//! ```
//!
//! Nobody imitates an API server here: what a controller is tested against is the
//! program that it will meet. Faults that a healthy API server does not show on demand
//! (410, 429, cut watches, silence) come from a proxy in front of it.
//!
//! - [`binaries`] finds or builds the programs,
//! - [`ControlPlane`] runs them, [`shared()`] runs one for all tests of a process,
//! - [`nodes`] registers nodes as kubelets do, [`floor`] measures the writes alone,
//! - [`faults`] stands in front of the API server.
//!
//! No process outlives its owner, even one that is killed: see [`ControlPlane`].

pub mod binaries;
mod control_plane;
mod error;
pub mod faults;
pub mod floor;
mod identity;
pub mod nodes;
mod process;
mod shared;
mod wire;

pub use control_plane::{ControlPlane, Options};
pub use error::Error;
pub use shared::shared;

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
