//! The HTTPS server: health, metrics, debugging (HTTP-1 … HTTP-11, AUTH-2 … AUTH-7).
//!
//! In the order of a start:
//!
//! ```text
//!  Server::bind(serving)         a failure ends the process before it did anything
//!  Access::new(authn, authz, …)  reads files; so does a failure of this
//!  server.run(ServerParts { … }, stop) before the API server is reached: probes are answered, all that
//!                                needs a right gets 503. `stop` is last of all on the way out, so
//!                                that probes and scrapers see the end
//!  access.look_up()              the CAs of the cluster are read, or the start has failed
//!  Checks::add, Pages::dump      at any time
//! ```

mod access;
pub mod answer;
mod counts;
#[cfg(test)]
#[doc(hidden)]
pub mod fixture;
mod health;
mod listener;
mod metrics;
mod pages;
mod places;
mod route;
pub mod settings;
mod tls;

pub use self::{
    access::{Access, AccessError, ClientCa},
    counts::ServingMetrics,
    health::{Checks, Scope},
    listener::{BindError, Peer, Server},
    pages::Pages,
    route::ServerParts,
    tls::TlsError,
};

#[cfg(test)]
mod tests;
