//! The provider on the kernel of this host, in network namespaces that each test makes and removes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this file is test, which clippy only sees inside of test functions"
)]

mod cli;
mod cloud;
mod packets;
mod rig;
mod round_trip;
mod routes;
