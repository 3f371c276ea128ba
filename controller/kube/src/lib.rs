//! The Kubernetes side: clients, watches, stores of views, writes, events.

pub mod api;
pub mod certificate;
pub mod client;
pub mod cluster;
pub mod csrs;
pub mod decode;
pub mod error;
pub mod events;
pub mod leader;
pub mod metrics;
pub mod nodes;
pub mod patch;
pub mod services;
pub mod store;
pub mod volumes;
pub mod watch;
pub mod writer;

#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;

#[cfg(test)]
mod fuzz;
