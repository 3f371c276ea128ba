//! The real binary: served, controlled, killed, started again.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this file is test, which clippy only sees inside of test functions"
)]

mod control;
mod harness;
mod load_balancers;
mod routes;
mod state;
mod volumes;
