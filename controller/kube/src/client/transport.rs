//! The connections of a client. The API server speaks HTTP/2: all requests of a client share one connection, whose other
//! end is asked for a sign of life. A server or proxy that speaks HTTP/1.1 alone has a connection for each request in
//! flight.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::Body;
use parking_lot::Mutex;
use tower::{BoxError, Service, ServiceExt};

use super::{
    HttpResponse, HttpService,
    login::{CurrentLogin, Login},
    proxy::Dialer,
};

/// A connection on which nothing came for so long is pinged, as client-go does it.
pub(super) const PING_AFTER: Duration = Duration::from_secs(30);

/// A connection that does not answer a ping for so long is dead, with all that waits on it.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) type Connector = TimeoutConnector<HttpsConnector<Dialer>>;
pub(super) type HttpClient = legacy::Client<Connector, Body>;

/// Sends requests with the login of the moment. Clones share the connections.
#[derive(Clone)]
pub(super) struct Transport {
    login: Arc<CurrentLogin>,
    pool: Arc<Mutex<Arc<Pool>>>,
}

/// The connections of the requests to come. Those of former pools end with the last request on them.
struct Pool {
    login: Arc<Login>,
    service: HttpService,
}

impl Transport {
    pub(super) fn new(login: Arc<CurrentLogin>) -> Self {
        let pool = Pool::new(login.get());
        Self {
            login,
            pool: Arc::new(Mutex::new(pool)),
        }
    }

    fn pool(&self) -> Arc<Pool> {
        let login = self.login.get();
        let mut pool = self.pool.lock();
        if !Arc::ptr_eq(&pool.login, &login) {
            *pool = Pool::new(login);
        }
        Arc::clone(&pool)
    }
}

impl Pool {
    fn new(login: Arc<Login>) -> Arc<Self> {
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .build(login.connector.clone());
        let service = login.around(http);
        Arc::new(Self { login, service })
    }
}

/// A request in flight. Given up, it takes its connection out of use: it may be dead, and a request such as the
/// renewal of the Lease cannot wait for the ping. Over HTTP/1.1 hyper does the same.
struct InFlight<'a> {
    transport: &'a Transport,
    pool: Arc<Pool>,
    is_answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut pool = self.transport.pool.lock();
        if !self.is_answered && Arc::ptr_eq(&pool, &self.pool) {
            *pool = Pool::new(Arc::clone(&self.pool.login));
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = HttpResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<HttpResponse, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let mut sent = InFlight {
                transport: &this,
                pool: this.pool(),
                is_answered: false,
            };
            let result = sent.pool.service.clone().oneshot(request).await;
            sent.is_answered = true;
            let status = result.as_ref().map(Response::status);
            if matches!(status, Ok(StatusCode::UNAUTHORIZED)) {
                this.login.refused(&sent.pool.login);
            }
            result
        })
    }
}
