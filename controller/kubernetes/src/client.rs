//! Clients of the API server, each with a budget, a time limit and a name of its own.

mod size;
mod source;

use std::{
    num::NonZeroU32,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{HeaderValue, Request, Response, header::USER_AGENT};
use hyper::body::Body as HttpBody;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    config::AuthInfo,
};
use outrigger_core::repairs::FIELD_MANAGER;
use tokio::{sync::Semaphore, time::Instant};
use tower::{BoxError, Service, ServiceBuilder};

use self::size::Counted;
use self::source::Way;
pub(super) use self::source::read_kubeconfig;
pub use self::source::{ApiServer, InProcess, Source, SourceError};
use super::{
    authenticator::{Authenticator, Authenticators},
    error::{AnswerTimeout, Fenced, chain},
    kubeconfig::Kubeconfig,
    metrics::{ClientMetrics, is_watch},
    traffic::Traffic,
    transport::Transport,
};
use outrigger_runtime::fence::Fence;

/// How long the API server may take to begin an answer to anything but a watch.
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
        if self.qps.is_nan() || self.qps <= 0.0 {
            return None;
        }
        let burst = NonZeroU32::new(self.burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(Duration::from_secs_f32(1.0 / self.qps))?.allow_burst(burst);
        Some(Arc::new(RateLimiter::direct(quota)))
    }
}

/// Makes the clients of one process; they share metrics and credentials, but no connection, no budget and no
/// places in flight.
#[derive(Clone)]
pub struct Clients {
    server: ApiServer,
    authenticator: Authenticator,
    metrics: ClientMetrics,
    traffic: Traffic,
}

impl Clients {
    /// Clients for `server`. Reads the files of its user; credential plugins run with the first
    /// request, once for all clients of `authenticators`.
    ///
    /// # Errors
    /// Certificates or credentials that cannot be used.
    pub fn new(
        server: ApiServer,
        authenticators: &Authenticators,
        metrics: ClientMetrics,
    ) -> Result<Self, SourceError> {
        let kubeconfig = server.kubeconfig.clone();
        let authenticator = authenticators.of(&server.config.auth_info, kubeconfig);
        let authenticator = authenticator.map_err(|reason| SourceError::Client {
            server: server.config.cluster_url.to_string(),
            reason,
        })?;
        Ok(Self {
            server,
            authenticator,
            metrics,
            traffic: Traffic::default(),
        })
    }

    /// The writes in flight of all clients, which events yield to.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// URL of the API server, for messages.
    pub fn server(&self) -> String {
        self.server.config.cluster_url.to_string()
    }

    /// A client whose User-Agent ends in `name` (E-7). Requests wait for the budget, and until few enough are in
    /// flight; an answer that has not begun 30 s after that is an error, except of a watch.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub fn build(&self, name: &str, budget: Budget) -> Result<Client, SourceError> {
        self.client(&self.server.config, &self.authenticator, name, budget)
    }

    /// [`Self::build`], but with the identity of `account` instead of the process's own.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub fn build_as(
        &self,
        account: &Authenticator,
        name: &str,
        budget: Budget,
    ) -> Result<Client, SourceError> {
        // The kubeconfig's user, and its impersonation, are not the service account's.
        let mut config = self.server.config.clone();
        config.auth_info = AuthInfo::default();
        self.client(&config, account, name, budget)
    }

    fn client(
        &self,
        config: &Config,
        authenticator: &Authenticator,
        name: &str,
        budget: Budget,
    ) -> Result<Client, SourceError> {
        let refuse = |reason: String| SourceError::Client {
            server: self.server(),
            reason,
        };
        let agent = HeaderValue::from_str(&user_agent(name)).map_err(|e| refuse(chain(&e)))?;
        let host: Arc<str> = config
            .cluster_url
            .authority()
            .map_or("", |authority| authority.as_str())
            .into();
        let govern = Govern {
            agent,
            limiter: budget.limiter(),
            places: Arc::new(Semaphore::new(IN_FLIGHT)),
            metrics: self.metrics.clone(),
            traffic: self.traffic.clone(),
            host: Arc::clone(&host),
        };
        match &self.server.way {
            Way::Network(proxy) => {
                let transport = {
                    let kubeconfig = self.server.kubeconfig.as_ref();
                    let verifier = kubeconfig.and_then(Kubeconfig::verifier);
                    Transport::new(
                        config,
                        verifier,
                        proxy.as_ref(),
                        authenticator.clone(),
                        host,
                    )
                };
                layered(config, govern.around(transport.map_err(&refuse)?))
            }
            Way::InProcess(service) => layered(config, govern.around(service.clone())),
        }
        .map_err(refuse)
    }
}

/// The client over `service`, with the URL and the headers of `config`.
///
/// # Errors
/// Headers that cannot be sent, as a sentence.
fn layered<S, B>(config: &Config, service: Governed<S>) -> Result<Client, String>
where
    Governed<S>: Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let mut config = config.clone();
    config.headers.retain(|(name, _)| name != USER_AGENT);
    let headers = config
        .extra_headers_layer()
        .map_err(|error| chain(&error))?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(headers)
        .service(service);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// `outrigger/<version> (<os>/<arch>) <client>`.
fn user_agent(client: &str) -> String {
    let os = std::env::consts::OS;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "{FIELD_MANAGER}/{} ({os}/{arch}) {client}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Adds the budget, the time limit, the name and the metrics to a client.
#[derive(Clone)]
struct Govern {
    agent: HeaderValue,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
    places: Arc<Semaphore>,
    metrics: ClientMetrics,
    traffic: Traffic,
    host: Arc<str>,
}

impl Govern {
    const fn around<S>(self, inner: S) -> Governed<S> {
        Governed {
            inner,
            govern: self,
        }
    }
}

#[derive(Clone)]
struct Governed<S> {
    inner: S,
    govern: Govern,
}

impl<S, B> Service<Request<Body>> for Governed<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody + Unpin + 'static,
{
    type Response = Response<Counted<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request
            .headers_mut()
            .insert(USER_AGENT, self.govern.agent.clone());
        let govern = self.govern.clone();
        let method = request.method().clone();
        let watch = is_watch(request.uri());
        if let Some(bytes) = request.body().size_hint().exact() {
            govern.metrics.sent(&method, &govern.host, bytes);
        }
        let in_flight = govern.traffic.begin(&method, request.uri());
        let fence = request.extensions().get::<Fence>().cloned();
        // The service cannot be cloned, so its future is made now and polled after the wait.
        let answer = self.inner.call(request);
        Box::pin(async move {
            // From the wait for the budget on: an event must not take the place of a write that waits.
            let _in_flight = in_flight;
            if let Some(limiter) = &govern.limiter {
                let since = Instant::now();
                limiter.until_ready().await;
                govern
                    .metrics
                    .waited(&method, &govern.host, since.elapsed());
            }
            let place = if watch {
                None
            } else {
                // The semaphore is never closed.
                govern.places.clone().acquire_owned().await.ok()
            };
            // The transport asks once more, after its own waits.
            if fence.is_some_and(|fence| !fence.may_write()) {
                return Err(Fenced.into());
            }
            let sent = Instant::now();
            let result = if watch {
                answer.await.map_err(Into::into)
            } else {
                match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
                    Ok(result) => result.map_err(Into::into),
                    Err(_) => Err(AnswerTimeout(ANSWER_TIMEOUT).into()),
                }
            };
            if result.as_ref().is_err_and(|error| error.is::<Fenced>()) {
                // It was not sent.
                return result.map(|response| response.map(|body| Counted::new(body, None)));
            }
            let code: Option<u16> = result
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            govern
                .metrics
                .answered(&method, watch, &govern.host, code, sent.elapsed());
            result.map(|response| {
                let report = (!watch).then(|| {
                    let report = move |bytes| {
                        govern.metrics.received(&method, &govern.host, bytes);
                        // Its stream, or connection, is free.
                        drop(place);
                    };
                    Box::new(report) as Box<dyn FnOnce(usize) + Send>
                });
                response.map(|body| Counted::new(body, report))
            })
        })
    }
}

#[cfg(test)]
mod tests;
