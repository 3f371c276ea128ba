//! The Kubernetes side: clients, watches, stores of views, writes, events.

pub mod api;
pub mod authenticator;
pub(crate) mod certificate;
pub mod client;
pub mod cluster;
pub mod decode;
pub mod error;
pub mod events;
mod merge;
pub mod metrics;
pub mod nodes;
pub mod patch;
mod proxy;
pub mod refusals;
pub mod service_account;
pub mod services;
pub mod store;
pub mod traffic;
mod transport;
pub mod watch;

#[cfg(test)]
pub(crate) mod scripted;
