//! The controller as it ships, beside providers of several kinds, on a real API server.
//!
//! ```text
//!  test ──► Stage ──► cloud-controller-manager ──► FaultProxy ──► kube-apiserver ──► etcd
//!                          │
//!                          └──► provider-mock
//! ```
//!
//! Each test has a control plane to itself while it runs, for a controller sees all nodes. Names
//! like N-13 and Q-1 are rows of `docs/upstream.md`; a test that is named for one
//! shows what is to be seen of it from outside.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

mod caller;
mod cluster;
mod controller;
mod look;
mod mock;
mod plane;
mod replica;
mod rights;
mod stage;
mod wait;

mod check;
mod explain;
mod initialisation;
mod ipam;
mod kill_drill;
mod kubelet;
mod lifetime;
mod memory;
mod nonsense;
mod operation;
mod providers;
mod resilience;
mod routes;
mod services;
mod serving_certificates;
mod sweep;
mod upgrade;
mod volumes;
mod webhooks;
