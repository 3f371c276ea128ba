//! The listener and its connections: who may be how slow, and how they end.

use std::{
    convert::Infallible,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use super::{
    places::{Places, ServingMetrics},
    tls::{Tls, TlsError},
};
use crate::server::settings::Serving;

/// How long a client may take for the TLS handshake, for the head of a request, and from one request to the next.
const SLOW: Duration = Duration::from_secs(5);

/// Size of the head of a request.
const HEAD_BYTES: usize = 16 * 1024;

/// Requests in flight may finish for so long after a stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of certificates are looked at once in this period, as upstream.
const RELOAD: Duration = Duration::from_mins(1);

/// Connections that may wait in the kernel.
const BACKLOG: u32 = 1024;

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port, or the address is not ours.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Its certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The peer of a connection, an extension of its requests.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address that the connection comes from.
    pub address: SocketAddr,
    /// The client's certificate and its chain; not verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// A listener with its certificates, before anything is answered.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Tls,
}

impl Server {
    /// Reads (or makes) the certificates and takes the port, so that a flag that cannot be followed
    /// ends the process before it does anything. From then on connections wait in the kernel until
    /// the server runs, which should be soon: probes wait with them. Call it in a runtime; it reads files.
    pub fn bind(serving: &Serving) -> Result<Self, BindError> {
        let tls = Tls::new(serving)?;
        let failed = |source| BindError::Listen {
            address: SocketAddr::new(serving.address, serving.port),
            source,
        };
        let listener = listen(serving).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            tls,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers by `router` until `stop`; then requests in flight may finish for a few seconds. An answer with
    /// `Connection: close` is the last of its connection.
    pub async fn serve(self, router: Router, metrics: ServingMetrics, stop: CancellationToken) {
        info!(address = %self.address, "Serving securely");
        let places = Places::new(metrics.clone());
        let connection = Connection {
            acceptor: TlsAcceptor::from(Arc::clone(&self.tls.config)),
            http: http(),
            router,
            metrics,
            stop: stop.clone(),
        };
        let mut connections = JoinSet::new();
        let mut reload = interval(RELOAD);
        reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
        reload.reset();
        loop {
            let (stream, address) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    // Out of file descriptors mostly, where others must be closed first.
                    Err(error) => {
                        warn!(%error, "HTTPS connections cannot be accepted");
                        sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                },
                _ = reload.tick() => {
                    let certificates = Arc::clone(&self.tls.certificates);
                    connections.spawn_blocking(move || certificates.refresh());
                    continue;
                }
                Some(_) = connections.join_next() => continue,
            };
            // Without a place it is closed.
            let Some(place) = places.take(address.ip()) else {
                continue;
            };
            let served = connection.clone().serve(stream, address);
            connections.spawn(async move {
                if let Err(error) = served.await {
                    debug!(peer = %address, error, "connection failed");
                }
                drop(place);
            });
        }
        drop(self.listener);
        let done = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, done).await.is_err() {
            debug!("some HTTPS requests did not finish");
        }
    }
}

/// Listens at the address of the flags. A wildcard of either family is `[::]` for both (CLI-50), or
/// `0.0.0.0` where the kernel has no IPv6.
fn listen(serving: &Serving) -> io::Result<TcpListener> {
    let on = |address: IpAddr| {
        let socket = match address {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, !address.is_unspecified())?;
        }
        // A restart must not wait for connections of the process before it to time out.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(serving.permit_port_sharing)?;
        socket.bind(SocketAddr::new(address, serving.port))?;
        socket.listen(BACKLOG)
    };
    if serving.address.is_unspecified() {
        match on(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if error.kind() != ErrorKind::AddrInUse && serving.address.is_ipv4() => {}
            listener => return listener,
        }
    }
    on(serving.address)
}

/// HTTP/2 would need limits of its own, and no client of these ports gains by it.
fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(SLOW)
        .max_buf_size(HEAD_BYTES);
    http
}

/// How each connection is served.
#[derive(Clone)]
struct Connection {
    acceptor: TlsAcceptor,
    http: http1::Builder,
    router: Router,
    metrics: ServingMetrics,
    stop: CancellationToken,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Connection {
    async fn serve(self, stream: TcpStream, address: SocketAddr) -> Result<(), Failure> {
        stream.set_nodelay(true)?;
        let handshake = timeout(SLOW, self.acceptor.accept(stream));
        let Some(stream) = self.stop.run_until_cancelled(handshake).await else {
            return Ok(());
        };
        let stream = stream??;
        let (_, session) = stream.get_ref();
        let peer = Peer {
            address,
            certificates: session.peer_certificates().unwrap_or_default().into(),
        };
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let answer = self.router.clone().oneshot(request.map(Body::new));
            let metrics = self.metrics.clone();
            async move {
                let answer = answer.await?;
                metrics.answered(answer.status());
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = self.stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        Ok(connection.await?)
    }
}
