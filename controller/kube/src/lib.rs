//! The Kubernetes side: clients, watches, stores of views, writes, events, and the election of the leader.
//!
//! ```text
//!  Source ─► Clients ─► Api ─┬─► watch: list, then changes ─► Store<View> ─► event handlers of the loops
//!                            ├─► writer: one patch ──────────► Store (what was written, at once)
//!                            ├─► events: a queue, never awaited
//!                            └─► leader: Lease ─► LeaseTerm ─► Fence of each write
//! ```
//!
//! From an identity ([`client::Clients`]) the binary makes a client for each purpose, so that a renewal of the
//! Lease never waits behind other requests. The loops read a [`store::Store`], write through [`writer::ObjectWriter`] and
//! record events; they never build a request themselves.
//!
//! It promises: a view is no older than the last write of this process to its object; a write that another client's
//! change contradicts is refused and not carried out; no write is sent outside the lease term of its [`api::Api`]; an
//! object that cannot be decoded costs no other one.
//!
//! Never here: decisions about objects (`outrigger-core` makes them and names each change) and the provider.

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
