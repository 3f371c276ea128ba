//! Which path is answered by what (HTTP-1).

use std::sync::Arc;

use http::{HeaderValue, Method, Request, header};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{
    access::Access,
    answer::{self, Answer},
    counts::ServingMetrics,
    health::{self, Checks, Slis},
    metrics,
    pages::Pages,
    server::{Handler, Peer, Server},
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

struct Routes {
    parts: ServerParts,
    slis: Slis,
}

impl Server {
    /// Answers requests until `stop`, then lets those in flight finish for a few seconds. Reads
    /// certificates and CAs again when they change.
    pub async fn run(self, parts: ServerParts, stop: CancellationToken) {
        let (access, metrics) = (Arc::clone(&parts.access), parts.metrics.clone());
        let slis = Slis::default();
        let routes = Arc::new(Routes { parts, slis });
        tokio::join!(
            self.serve(routes, metrics, stop.clone()),
            access.keep_fresh(stop.clone()),
        );
    }
}

impl Handler for Routes {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: Peer) -> Answer {
        let (head, body) = request.into_parts();
        // Dropped at once, else bodies would fill up memory while their requests wait for a review.
        let body = (head.method == Method::PUT).then_some(body);
        let mut answer = match self.parts.access.refuse(&head, &peer).await {
            Some(refusal) => refusal,
            None => self.route(&head, body).await,
        };
        // On all answers, as the API machinery's filter (HTTP-4).
        let value = HeaderValue::from_static("no-cache, private");
        answer.headers_mut().insert(header::CACHE_CONTROL, value);
        answer
    }
}

impl Routes {
    async fn route(&self, head: &http::request::Parts, body: Option<Incoming>) -> Answer {
        let path = head.uri.path();
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        if let Some((of, check)) = health::Path::parse(path) {
            return match check {
                _ if !reads => answer::wrong_method(),
                Some(check) => health::one(&self.parts.checks, of, check),
                None => health::all(&self.parts.checks, &self.slis, of, head.uri.query()),
            };
        }
        if path == "/metrics/slis" && head.method == Method::DELETE {
            self.slis.reset();
            return answer::text("metrics reset\n");
        }
        if let Some(path) = path.strip_prefix("/debug/") {
            return self.parts.pages.debug(path, body).await;
        }
        if let Some(path) = path.strip_prefix("/explain/") {
            return if reads {
                self.parts.pages.explained(path)
            } else {
                answer::wrong_method()
            };
        }
        match path {
            "/metrics" | "/metrics/slis" | "/configz" | "/flagz" | "/statusz" if !reads => {
                answer::wrong_method()
            }
            "/metrics" => metrics::answer(&self.parts.registry, &head.headers),
            "/metrics/slis" => metrics::answer(self.slis.registry(), &head.headers),
            "/configz" => self.parts.pages.configz(),
            "/flagz" => self.parts.pages.flagz(),
            "/statusz" => self.parts.pages.statusz(),
            _ => answer::not_found(),
        }
    }
}
