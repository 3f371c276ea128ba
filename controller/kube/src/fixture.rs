//! A small API server for tests, and the objects it holds.

#![allow(
    clippy::expect_used,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

mod cluster;
pub mod lease;
pub(crate) mod merge;
pub(crate) mod nodes;
pub mod scripted;
mod services;

use std::time::Duration;

use outrigger_core::lease::Durations;

pub use self::{
    cluster::{Cluster, POLICY},
    nodes::{UNINITIALIZED, node, settled},
    services::service,
};

/// How long a test waits on the paused clock.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Durations of a leader election as the flags have them by default.
pub fn durations() -> Durations {
    let secs = Duration::from_secs;
    Durations::new(secs(15), secs(10), secs(2)).unwrap()
}
