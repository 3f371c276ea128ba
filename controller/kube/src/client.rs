//! Clients of the API server, each with a budget, a time limit, a name and a connection of its own; they share the login.
//!
//! ```text
//!   Api ──► budget, place in flight, time limit, metrics ──► base URI ──► headers, login, fence ──► HTTP/2 connection
//!           └────────────────── client.rs ─────────────────────────┘    └─ login.rs ──────────┘   └─ transport.rs ─┘
//! ```
//!
//! TLS, headers and logins are those of kube's `ConfigExt`. kube's own client would speak HTTP/1.1 without pings, retry
//! answers such as 429 below every layer, read certificates once, and match `NO_PROXY` with the address of the proxy.

mod login;
mod proxy;
mod source;
mod transport;

use std::{
    num::NonZeroU32,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{HeaderValue, Method, Request, header::USER_AGENT, uri::Authority};
use kube::{
    Client,
    client::{Body, ConfigExt},
};
use outrigger_core::repairs::FIELD_MANAGER;
use outrigger_runtime::telemetry::PLATFORM;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};
use tower::{BoxError, Layer, Service, ServiceExt, filter::Filter};

pub use self::source::{ApiServer, HttpResponse, HttpService, Source, SourceError};
use self::{
    login::{CurrentLogin, fenced},
    source::Way,
    transport::Transport,
};
use super::{
    error::ApiError,
    metrics::{ClientMetrics, is_watch},
};

/// How long the API server may take to begin an answer to anything but a watch. A webhook may take 30 s of a write.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests of one client in flight, watches aside. The API server allows 100 streams on a connection; a server or
/// proxy that speaks HTTP/1.1 alone has as many connections, each of which is an open file.
const IN_FLIGHT: usize = 64;

/// The rate limit of one client.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Requests a second; negative: no limit (as upstream's `--kube-api-qps`).
    pub qps: f32,
    /// Requests together.
    pub burst: u32,
}

impl Budget {
    /// No limit, for requests that must not wait behind others: lease renewals.
    pub const UNLIMITED: Self = Self {
        qps: -1.0,
        burst: 1,
    };

    fn limiter(self) -> Option<Arc<DefaultDirectRateLimiter>> {
        // Nor is NaN above zero.
        let qps = Some(self.qps).filter(|qps| *qps > 0.0)?;
        let burst = NonZeroU32::new(self.burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(Duration::from_secs_f32(1.0 / qps))?.allow_burst(burst);
        Some(Arc::new(RateLimiter::direct(quota)))
    }
}

/// Makes the clients of one identity; they share metrics and the login, but no connection, no budget and no places in
/// flight.
#[derive(Clone)]
pub struct Clients {
    server: ApiServer,
    reach: Reach,
    metrics: ClientMetrics,
    writes: watch::Sender<usize>,
}

#[derive(Clone)]
enum Reach {
    Network(Arc<CurrentLogin>),
    InProcess(HttpService),
}

impl Reach {
    async fn of(server: &ApiServer) -> Result<Self, SourceError> {
        match &server.way {
            Way::InProcess(service) => Ok(Self::InProcess(service.clone())),
            Way::Network(proxy) => {
                let opened = CurrentLogin::open(server.clone(), proxy.clone()).await;
                let url = &server.config.cluster_url;
                let login = opened.map_err(|reason| SourceError::no_client(url, &reason))?;
                Ok(Self::Network(Arc::new(login)))
            }
        }
    }
}

impl Clients {
    /// Clients for `server` with the identity of its user. Reads files and runs a credential plugin, on another thread.
    ///
    /// # Errors
    /// Certificates or credentials that cannot be used, or a plugin that does not end.
    pub async fn new(server: ApiServer, metrics: ClientMetrics) -> Result<Self, SourceError> {
        Ok(Self {
            reach: Reach::of(&server).await?,
            server,
            metrics,
            writes: watch::Sender::default(),
        })
    }

    /// URL of the API server, for messages.
    pub fn server(&self) -> String {
        self.server.url()
    }

    /// How many writes of all clients are in flight.
    pub fn writes(&self) -> watch::Receiver<usize> {
        self.writes.subscribe()
    }

    /// A client whose User-Agent ends in `name`. Requests wait for the budget, and until few enough are in
    /// flight; an answer that has not begun 30 s after that is an error, except of a watch.
    pub fn build(&self, name: &str, budget: Budget) -> Client {
        let url = &self.server.config.cluster_url;
        let inner = match &self.reach {
            Reach::Network(login) => HttpService::new(Transport::new(Arc::clone(login))),
            Reach::InProcess(service) => HttpService::new(Filter::new(service.clone(), fenced)),
        };
        let governed = Governed {
            inner,
            agent: user_agent(name),
            limiter: budget.limiter(),
            places: Arc::new(Semaphore::new(IN_FLIGHT)),
            metrics: self.metrics.clone(),
            writes: self.writes.clone(),
            host: url.authority().map_or("", Authority::as_str).into(),
        };
        let service = self.server.config.base_uri_layer().layer(governed);
        // Each request names its namespace.
        Client::new(service, "default")
    }
}

/// `outrigger/<version> (<os>/<arch>) <client>`.
fn user_agent(client: &str) -> HeaderValue {
    let version = env!("CARGO_PKG_VERSION");
    let agent = format!("{FIELD_MANAGER}/{version} ({PLATFORM}) {client}");
    HeaderValue::try_from(agent).unwrap_or_else(|_| HeaderValue::from_static(FIELD_MANAGER))
}

/// Adds the budget, the time limit, the name and the metrics to a client.
#[derive(Clone)]
struct Governed {
    inner: HttpService,
    agent: HeaderValue,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
    places: Arc<Semaphore>,
    metrics: ClientMetrics,
    writes: watch::Sender<usize>,
    host: Arc<str>,
}

/// A write in flight, until it is dropped.
struct Writing(watch::Sender<usize>);

impl Writing {
    fn begin(writes: &watch::Sender<usize>) -> Self {
        writes.send_modify(|count| *count += 1);
        Self(writes.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Service<Request<Body>> for Governed {
    type Response = HttpResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<HttpResponse, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let this = self.clone();
        let agent = this.agent.clone();
        request.headers_mut().insert(USER_AGENT, agent);
        let method = request.method().clone();
        let is_watch = is_watch(request.uri());
        Box::pin(async move {
            if let Some(limiter) = &this.limiter {
                let since = Instant::now();
                limiter.until_ready().await;
                let waited = since.elapsed();
                this.metrics.waited(&method, &this.host, waited);
            }
            let (mut limit, mut _place) = (Duration::MAX, None);
            if !is_watch {
                limit = ANSWER_TIMEOUT;
                // The semaphore is never closed.
                _place = this.places.acquire().await.ok();
            }
            let sent = Instant::now();
            let _writing = (method != Method::GET).then(|| Writing::begin(&this.writes));
            let result = timeout(limit, this.inner.oneshot(request)).await;
            let result = result.unwrap_or_else(|_| Err(ApiError::Timeout(limit).into()));
            let code = match &result {
                Ok(response) => Some(response.status().as_u16()),
                // A request that the fence held back was not sent.
                Err(error) if matches!(error.downcast_ref(), Some(ApiError::Fenced)) => {
                    return result;
                }
                Err(_) => None,
            };
            let took = sent.elapsed();
            this.metrics
                .answered(&method, is_watch, &this.host, code, took);
            result
        })
    }
}

#[cfg(test)]
mod tests;
