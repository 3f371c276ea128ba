//! The way of a request to the API server: TCP or a proxy, TLS, the credential of the moment.
//!
//! The API server speaks HTTP/2: all requests of a client share one connection, whose other end is asked for a
//! sign of life. A server or proxy that speaks HTTP/1.1 alone has a connection for each request in flight.

mod guarded;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri, header::AUTHORIZATION};
use hyper::body::Incoming;
use hyper_rustls::{
    FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream,
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{
            HttpConnector,
            proxy::{SocksV5, Tunnel},
        },
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt},
    config::AuthInfo,
};
use parking_lot::Mutex;
use rustls::client::{Resumption, danger::ServerCertVerifier};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};

use self::guarded::Guarded;
use super::{
    authenticator::Authenticator,
    error::{Fenced, chain},
    proxy::{Kind, Proxy},
};
use outrigger_runtime::fence::Fence;

/// How long a connection may take, that of a proxy and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a write to the connection may be stuck.
const WRITE_TIMEOUT: Duration = Duration::from_secs(295);

/// A connection on which nothing came for so long is pinged, as client-go does it.
const PING_AFTER: Duration = Duration::from_secs(30);

/// A connection that does not answer a ping for so long is dead, with all that waits on it.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Probes of TCP after [`PING_AFTER`], for HTTP/1.1, which has no ping: a host without power is noticed in the
/// same time.
const PROBES: u32 = 3;

type Connector = TimeoutConnector<HttpsConnector<Way>>;
type HttpClient = Client<Connector, Guarded>;

/// Sends requests with the credential of the moment, and a write only if its [`Fence`] is open after the last
/// wait. Clones share the connections.
#[derive(Clone)]
pub(super) struct Transport {
    authenticator: Authenticator,
    connector: Connector,
    pool: Arc<Mutex<Pool>>,
    /// The API server, for messages.
    host: Arc<str>,
}

/// The connections of the requests to come.
struct Pool {
    /// Their TLS handshakes presented the client certificate of that generation.
    generation: u64,
    /// Another one for each pool.
    number: u64,
    client: HttpClient,
}

impl Transport {
    /// To the API server of `config`, whose user counts for nothing: that is `authenticator`. So do its CAs where there is a
    /// `verifier`.
    ///
    /// # Errors
    /// CAs that cannot be used, as a sentence.
    pub(super) fn new(
        config: &Config,
        verifier: Option<Arc<dyn ServerCertVerifier>>,
        proxy: Option<&Proxy>,
        authenticator: Authenticator,
        host: Arc<str>,
    ) -> Result<Self, String> {
        let mut config = config.clone();
        config.auth_info = AuthInfo::default();
        let mut tls = config
            .rustls_client_config()
            .map_err(|error| chain(&error))?;
        tls.client_auth_cert_resolver = authenticator.certificate();
        if let Some(verifier) = verifier {
            tls.dangerous().set_certificate_verifier(verifier);
        }
        // A resumed session would go on with the certificate of the former.
        tls.resumption = Resumption::disabled();
        let mut https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = name
                .clone()
                .try_into()
                .map_err(|error| format!("tls-server-name {name:?}: {error}"))?;
            https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let https = https.enable_all_versions();
        let https = https.wrap_connector(way(proxy)?);
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_write_timeout(Some(WRITE_TIMEOUT));
        let client = client(&connector);
        Ok(Self {
            authenticator,
            connector,
            host,
            pool: Arc::new(Mutex::new(Pool {
                generation: 0,
                number: 0,
                client,
            })),
        })
    }

    /// Connections that present the certificate of `generation`. Those of former ones end when the
    /// last request on them does.
    fn client(&self, generation: u64) -> (HttpClient, Unanswered<'_>) {
        let mut pool = self.pool.lock();
        if pool.generation < generation {
            pool.generation = generation;
            pool.replace(&self.connector);
        }
        let unanswered = Unanswered {
            transport: self,
            number: Some(pool.number),
        };
        (pool.client.clone(), unanswered)
    }
}

impl Pool {
    fn replace(&mut self, connector: &Connector) {
        self.client = client(connector);
        self.number += 1;
    }
}

fn client(connector: &Connector) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector.clone())
}

/// A request in flight. Given up, it takes its connection out of use: it may be dead, and a request such as the
/// renewal of the Lease cannot wait for the ping. Over HTTP/1.1 hyper does the same.
struct Unanswered<'a> {
    transport: &'a Transport,
    /// The number of its pool; absent once there was an answer.
    number: Option<u64>,
}

impl Unanswered<'_> {
    fn answered(mut self) {
        self.number = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut pool = self.transport.pool.lock();
            if pool.number == number {
                pool.replace(&self.transport.connector);
            }
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let credential = this.authenticator.current().await?;
            if let Some(header) = &credential.header {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
            }
            // A plugin may have taken long; a connection may again, so that the body asks too.
            let fence = request.extensions_mut().remove::<Fence>();
            if fence.as_ref().is_some_and(|fence| !fence.may_write()) {
                return Err(Fenced.into());
            }
            let (client, unanswered) = this.client(credential.generation);
            let is_fenced = Arc::<AtomicBool>::default();
            let request = request.map(|body| Guarded::new(body, fence, &is_fenced));
            let response = client.request(request).await;
            unanswered.answered();
            if is_fenced.load(Ordering::Relaxed) {
                return Err(Fenced.into());
            }
            let response = response?;
            if response.status() == StatusCode::UNAUTHORIZED {
                this.authenticator.refused(&credential, &this.host);
            }
            Ok(response)
        })
    }
}

/// Carries the bytes of TLS to the API server.
type Way = BoxCloneSyncService<Uri, Stream, BoxError>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

fn way(proxy: Option<&Proxy>) -> Result<Way, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    tcp.set_keepalive_interval(Some(PING_TIMEOUT / PROBES));
    tcp.set_keepalive_retries(Some(PROBES));
    tcp.set_tcp_user_timeout(Some(PING_AFTER + PING_TIMEOUT));
    let Some(proxy) = proxy else {
        let direct = tcp.map_response(Stream::Http).map_err(Into::into);
        return Ok(Way::new(direct));
    };
    let uri = proxy.uri.clone();
    Ok(match proxy.kind {
        Kind::Http => through(authorized(Tunnel::new(uri, tcp), proxy).map_response(Stream::Http)),
        Kind::Https => {
            // The CAs of the machine, for the proxy is not the API server.
            let tls = Config::new(uri.clone())
                .rustls_client_config()
                .map_err(|error| chain(&error))?;
            let https = HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_only()
                .enable_http1()
                .wrap_connector(tcp);
            through(authorized(Tunnel::new(uri, https), proxy))
        }
        Kind::Socks5 => {
            let socks = SocksV5::new(uri, tcp).local_dns(false);
            let socks = match proxy.login.clone() {
                Some((user, password)) => socks.with_auth(user, password),
                None => socks,
            };
            through(socks.map_response(Stream::Http))
        }
    })
}

fn authorized<C>(tunnel: Tunnel<C>, proxy: &Proxy) -> Tunnel<C> {
    match proxy.authorization() {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// The way through a proxy, whose errors name it as the place where the connection failed.
fn through<S>(proxied: S) -> Way
where
    S: Service<Uri, Response = Stream, Error: Into<BoxError>, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Way::new(proxied.map_err(|error| {
        let error: BoxError = error.into();
        BoxError::from(format!("through the proxy: {}", chain(&*error)))
    }))
}

#[cfg(test)]
mod tests;
