//! Clients of the API server, each with a budget, a time limit and a name of its own.

use std::{
    fmt,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{
    HeaderValue, Request, Response,
    header::{AUTHORIZATION, USER_AGENT},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use super::{
    error::{Fenced, chain},
    metrics::{ClientMetrics, is_watch},
    service_account::Credentials,
    traffic::Traffic,
};
use crate::fence::Fence;

/// How long the API server may take to begin an answer to anything but a watch.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the API server is and who we are to it.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `--kubeconfig`; absent: the Pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: overrides the server of the kubeconfig.
    pub master: Option<String>,
}

/// The connection to the API server cannot even be described.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A kubeconfig that cannot be read or used.
    #[error("--kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No kubeconfig, and not in a Pod.
    #[error(
        "invalid configuration: no configuration has been provided; give --kubeconfig or --master, \
         or run in a Pod with a service account token ({0})"
    )]
    NotInCluster(#[source] kube::config::InClusterError),
    /// `--master` is no URL.
    #[error("--master {0:?} is not a URL such as https://10.0.0.1:6443")]
    Master(String),
    /// Certificates or credentials that cannot be used.
    #[error("cannot build a client for the API server at {server}: {reason}")]
    Client {
        /// Its URL.
        server: String,
        /// What is wrong.
        reason: String,
    },
}

impl Source {
    /// Reads the kubeconfig or the Pod's service account. Makes no request.
    pub async fn load(&self) -> Result<Config, SourceError> {
        let master = match &self.master {
            Some(master) => Some(
                master
                    .parse::<http::Uri>()
                    .ok()
                    .filter(|uri| uri.scheme().is_some() && uri.authority().is_some())
                    .ok_or_else(|| SourceError::Master(master.clone()))?,
            ),
            None => None,
        };
        let mut config = match (&self.kubeconfig, &master) {
            (Some(path), _) => from_file(path).await?,
            (None, Some(server)) => Config::new(server.clone()),
            (None, None) => Config::incluster().map_err(SourceError::NotInCluster)?,
        };
        if let Some(server) = master {
            config.cluster_url = server;
        }
        // Only the work queue retries, so that back-off is visible: kube's own retries wait up to
        // 1,000 s out of sight.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        Ok(config)
    }
}

async fn from_file(path: &Path) -> Result<Config, SourceError> {
    let refuse = |reason: String| SourceError::Kubeconfig {
        path: path.to_owned(),
        reason,
    };
    let file = Kubeconfig::read_from(path).map_err(|error| refuse(chain(&error)))?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| refuse(chain(&error)))
}

/// What one client may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Requests a second; negative: no limit (as upstream's `--kube-api-qps`).
    pub qps: f32,
    /// Requests at once.
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

/// Makes the clients of one process; they share metrics but no connection and no budget.
#[derive(Clone, Debug)]
pub struct Clients {
    config: Config,
    metrics: ClientMetrics,
    traffic: Traffic,
}

impl Clients {
    /// Clients for the API server of `config`.
    pub fn new(config: Config, metrics: ClientMetrics) -> Self {
        Self {
            config,
            metrics,
            traffic: Traffic::default(),
        }
    }

    /// The writes in flight of all clients, which events yield to.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// URL of the API server, for messages.
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// A client whose User-Agent ends in `name` (upstream's line E-7). Requests wait for the
    /// budget; an answer that has not begun after 30 s is an error, except of a watch.
    pub fn build(&self, name: &str, budget: Budget) -> Result<Client, SourceError> {
        self.client(self.config.clone(), name, budget, None)
    }

    /// [`Self::build`], but with the rights of a service account instead of the process's own.
    pub fn build_as(
        &self,
        account: &Credentials,
        name: &str,
        budget: Budget,
    ) -> Result<Client, SourceError> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo::default();
        self.client(config, name, budget, Some(account.clone()))
    }

    fn client(
        &self,
        mut config: Config,
        name: &str,
        budget: Budget,
        account: Option<Credentials>,
    ) -> Result<Client, SourceError> {
        let refuse = |reason: String| SourceError::Client {
            server: self.server(),
            reason,
        };
        let agent = HeaderValue::from_str(&user_agent(name)).map_err(|e| refuse(chain(&e)))?;
        let host = self
            .config
            .cluster_url
            .authority()
            .map_or("", |a| a.as_str())
            .into();
        let layer = Govern {
            agent,
            limiter: budget.limiter(),
            metrics: self.metrics.clone(),
            traffic: self.traffic.clone(),
            host,
            account,
        };
        config.headers.retain(|(name, _)| name != USER_AGENT);
        let builder = ClientBuilder::try_from(config).map_err(|error| refuse(chain(&error)))?;
        Ok(builder.with_layer(&layer).build())
    }
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
        "outrigger/{} ({os}/{arch}) {client}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Adds the budget, the time limit, the name and the metrics to a client.
#[derive(Clone)]
struct Govern {
    agent: HeaderValue,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
    metrics: ClientMetrics,
    traffic: Traffic,
    host: Arc<str>,
    account: Option<Credentials>,
}

impl fmt::Debug for Govern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Govern")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for Govern {
    type Service = Governed<S>;

    fn layer(&self, inner: S) -> Governed<S> {
        Governed {
            inner,
            govern: self.clone(),
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
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request
            .headers_mut()
            .insert(USER_AGENT, self.govern.agent.clone());
        if let Some(account) = &self.govern.account {
            request
                .headers_mut()
                .insert(AUTHORIZATION, account.header());
        }
        let govern = self.govern.clone();
        let method = request.method().clone();
        let watch = is_watch(request.uri());
        let in_flight = govern.traffic.begin(&method, request.uri());
        let fence = request.extensions_mut().remove::<Fence>();
        // The service cannot be cloned, so its future is made now and polled after the wait.
        let answer = self.inner.call(request);
        Box::pin(async move {
            // From the wait for the budget on: an event must not take the place of a write that waits.
            let _in_flight = in_flight;
            if let Some(limiter) = &govern.limiter {
                let asked = Instant::now();
                limiter.until_ready().await;
                govern
                    .metrics
                    .waited(&method, &govern.host, asked.elapsed());
            }
            if fence.is_some_and(|fence| !fence.may_write()) {
                return Err(Fenced.into());
            }
            let sent = Instant::now();
            let result = if watch {
                answer.await.map_err(Into::into)
            } else {
                match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
                    Ok(result) => result.map_err(Into::into),
                    Err(elapsed) => Err(elapsed.into()),
                }
            };
            let code: Option<u16> = result
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            if let (Some(account), Some(401)) = (&govern.account, code) {
                account.refused();
            }
            govern
                .metrics
                .answered(&method, watch, &govern.host, code, sent.elapsed());
            result
        })
    }
}

#[cfg(test)]
mod tests;
