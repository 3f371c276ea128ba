//! Which path is answered by what (HTTP-1).

use std::{future::ready, sync::Arc};

use axum::{middleware, routing::get};
use http::HeaderMap;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{
    access::{self, Access},
    answer,
    counts::ServingMetrics,
    health::{self, Checks},
    listener::Server,
    metrics,
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
    /// Counts connections; it is in the registry.
    pub metrics: ServingMetrics,
}

impl Server {
    /// Answers requests until `stop`, then lets those in flight finish for a few seconds. Reads
    /// certificates and CAs again when they change.
    pub async fn run(self, parts: ServerParts, stop: CancellationToken) {
        let (access, registry) = (parts.access, parts.registry);
        let scrape = move |headers: HeaderMap| ready(metrics::answer(&registry, &headers));
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
