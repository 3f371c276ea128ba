//! The ground that the other crates of the controller stand on: fences, clocks, back-off, metrics and log lines.
//!
//! [`fence`] is the right to act in a lease term, asked by the clients of the API server and of the provider; [`clock`] is
//! the only reader of the time of day; [`backoff`] has the delays of queues and retries; [`history`] keeps decisions for
//! `explain`; and [`telemetry`] has the metrics and log lines that every component of Kubernetes has.
//!
//! Never here: Kubernetes, the provider, and decisions.

pub mod backoff;
pub mod clock;
pub mod fence;
pub mod history;
pub mod telemetry;

#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;

/// The version of this program, with upstream's `v` before it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
