//! The mock behind the contract, over connections in memory and on a paused clock: what it answers,
//! what that costs, and what each fault does to it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this file is test, which clippy only sees inside of test functions"
)]

mod balanced;
mod cost;
mod faults;
mod harness;
mod load_balancer_faults;
mod load_balancer_options;
mod load_balancers;
mod route_faults;
mod routed;
mod routes;
mod volume_faults;
