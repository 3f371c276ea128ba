//! The HTTPS server: health, metrics, debugging (HTTP-1 … HTTP-12, AUTH-1 … AUTH-7).
//!
//! In the order of a start:
//!
//! ```text
//!  Server::bind(serving)             before the API server is asked for anything; a failure ends
//!  Access::load(authn, authz, …)     reads CAs from the cluster; a failure ends, unless tolerated
//!  Checks::default, Pages::new       clones go to the parts that add checks and dumps
//!  server.run(Parts { … }, stop)     as a part of the supervisor, `stop` last of all on the way
//!                                    out, so that probes and scrapers see the end
//! ```
//!
//! ```ignore
//! let server = config.serving.as_ref().map(Server::bind).transpose()?;
//! let access = Access::load(&config.authentication, &config.authorization, &client_metrics).await?;
//! let checks = Checks::default();
//! let elector = handle.clone();
//! checks.add("leaderElection", Scope::Everywhere, move || {
//!     elector.check().map_err(|error| error.to_string())
//! });
//! let state = provider.state();
//! checks.add("provider", Scope::Readiness, move || {
//!     let state = state.borrow();
//!     if state.serves() { Ok(()) } else { Err(state.to_string()) }
//! });
//! let pages = Pages::new(&config, move |verbosity| telemetry.set_verbosity(verbosity));
//! let parts = Parts { checks, registry: Arc::new(registry), access, pages };
//! supervisor.spawn("HTTPS server", server.run(parts, process.clone()));
//! // With each loop that starts (HTTP-6):
//! checks.add("cloud-node-controller", Scope::Everywhere, || Ok(()));
//! ```

mod access;
mod answer;
mod health;
mod metrics;
mod pages;
mod query;
mod route;
mod server;
mod tls;

pub use self::{
    access::{Access, AccessError},
    health::{Checks, Scope},
    pages::Pages,
    route::Parts,
    server::{BindError, Server},
    tls::TlsError,
};

#[cfg(test)]
mod tests;
