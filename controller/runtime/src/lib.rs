//! The ground that the other crates of the controller stand on: fences, clocks, back-off, metrics and log lines.
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
