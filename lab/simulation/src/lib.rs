//! Whole controllers on simulated time, with faults and chance by seed or one fault in a [story], and the promises that they keep
//! meanwhile.
//!
//! ```text
//!  seed ─┬─► people: users, kubelets, machines ─► API server, cloud
//!        └─► faults ─► world: turns of two controllers and two providers, each a host with a runtime and a clock
//!                        └─► promises: after each turn, and once faults and people have come to rest
//! ```

pub mod apiserver;
pub mod certificates;
pub mod fault;
pub mod host;
pub mod log;
pub mod maintenance;
mod network;
pub mod people;
pub mod process;
pub mod promises;
pub mod socket;
pub mod story;
pub mod volumes;
pub mod world;
