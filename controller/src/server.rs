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
#[cfg(test)]
#[doc(hidden)]
pub mod fixture;
mod health;
mod listener;
mod metrics;
mod pages;
pub mod settings;
mod tls;

use std::{future::ready, sync::Arc};

use axum::{middleware, routing::get};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub use self::{
    access::{Access, ClientCa},
    health::{Checks, Scope},
    listener::{Peer, Server, ServingMetrics},
    pages::Pages,
};

/// Contents of the server, and the access to them.
pub struct ServerParts {
    /// `/healthz`, `/livez`, `/readyz`.
    pub checks: Checks,
    /// `/metrics`, complete.
    pub registry: Arc<Registry>,
    /// Authorization. The caller must call [`Access::look_up`].
    pub access: Arc<Access>,
    /// Everything else.
    pub pages: Pages,
    /// Those of connections; they are in the registry.
    pub metrics: ServingMetrics,
}

impl Server {
    /// Answers requests until `stop`, then lets those in flight finish for a few seconds. Reads
    /// certificates and CAs again when they change.
    pub async fn run(self, parts: ServerParts, stop: CancellationToken) {
        let (access, registry) = (parts.access, parts.registry);
        let scrape = move || ready(metrics::answer(&registry));
        let router = health::router(&parts.checks)
            .merge(parts.pages.router())
            .route("/metrics", get(scrape))
            .fallback(|| ready(answer::not_found()))
            .method_not_allowed_fallback(|| ready(answer::wrong_method()))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&access),
                access::check,
            ));
        tokio::join!(
            self.serve(router, parts.metrics, stop.clone()),
            stop.run_until_cancelled(access.keep_fresh()),
        );
    }
}

#[cfg(test)]
mod tests;
