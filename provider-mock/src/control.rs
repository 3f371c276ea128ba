//! The second socket: people and scripts change the cloud and read its counters.
//!
//! HTTP/1.1 and JSON over a Unix socket, so that `curl --unix-socket` works as well as
//! `provider-mock ctl`.

mod client;
mod commands;
mod load_balancers;
mod routes;
mod server;

pub use client::{Client, ClientError};
pub use commands::{
    AnnounceMaintenance, Changed, Command, Count, Failure, Listed, SetCost, SetFault, Status,
    Targets,
};
pub use load_balancers::{EditLoadBalancer, NewLoadBalancer, ShownLoadBalancers};
pub use routes::{EditRoutes, NewRoute, ShownRoutes, ShownVolumes};
pub use server::{About, serve};

use outrigger_provider_sdk::{Endpoint, InvalidEndpoint};

/// Environment variable that names the control socket, on both sides.
pub const CONTROL_ENDPOINT_ENV: &str = "PROVIDER_MOCK_CONTROL_ENDPOINT";

/// Default control socket of a mock at this endpoint: `….ctl`.
pub fn control_endpoint(endpoint: &Endpoint) -> Result<Endpoint, InvalidEndpoint> {
    let mut path = endpoint.path().as_os_str().to_owned();
    path.push(".ctl");
    Endpoint::unix(path)
}
