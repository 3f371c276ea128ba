//! The listener and its connections: who may be how slow, and how they end.

mod accept;
mod connections;
mod flushed;
mod socket;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::pki_types::CertificateDer;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use self::{
    accept::Accepting,
    connections::{Connection, Connections, Limits},
    flushed::Flushed,
};
use super::{
    answer,
    counts::{Closed, ServingMetrics},
    tls::{Certificates, Tls, TlsError},
};
use crate::settings::Serving;

/// How long a client may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long the head of a request may take, and how long an HTTP/1.1 connection may be idle.
const HEAD: Duration = Duration::from_secs(32);

/// How long a connection may be without a request, as upstream.
const IDLE: Duration = Duration::from_secs(90);

/// How long an idle connection may take to end after a GOAWAY.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An HTTP/2 connection is asked for a sign of life in this period.
const PING: Duration = Duration::from_secs(30);

/// Size of the head of a request: a token has up to 16 KiB.
const HEAD_BYTES: u32 = 32 * 1024;

/// Requests at once on a connection of HTTP/2, unless a flag says otherwise. Each costs memory.
const STREAMS: u32 = 16;

/// Bytes of bodies that a client may send before they are read, on a stream and on a connection of HTTP/2: the least that
/// the protocol allows for a connection.
const WINDOW: u32 = 65_535;

/// Connections at once. Probes, scrapers and people need few; each costs memory. Kubelets probe from
/// the node's address, so that a Pod that uses up its own share takes nothing from them.
const CONNECTIONS: Limits = Limits {
    per_peer: 32,
    total: 256,
};

/// Requests in flight may finish for so long after a stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of certificates are looked at once in this period, as upstream.
const RELOAD: Duration = Duration::from_mins(1);

/// The answer to plain HTTP on the HTTPS port, as Go's `net/http`: `http://` in a probe, mostly.
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Beginnings of requests that Go recognises.
const METHODS: [&[u8]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];

/// Bytes of path and query.
const URI_BYTES: usize = 1024;

/// The methods of HTTP that a page may tell apart.
const HTTP_METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::PUT,
    Method::POST,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port, or the address is not ours.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Its certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address that the connection comes from.
    pub address: SocketAddr,
    /// The client's certificate and its chain; not verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Answers requests. An answer with `Connection: close` is the last of its connection, over HTTP/2 too,
/// where a GOAWAY says so and requests in flight are answered.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request of `peer`; dropped when the client goes away.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// A listener with its certificates, before anything is answered.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Tls,
    max_streams: u32,
}

impl Server {
    /// Reads (or makes) the certificates and takes the port, so that a flag that cannot be followed
    /// ends the process before it does anything. From then on connections wait in the kernel until
    /// the server runs, which should be soon: probes wait with them. Call it in a runtime; it reads files.
    pub fn bind(serving: &Serving) -> Result<Self, BindError> {
        let tls = Tls::new(serving)?;
        let listen = |source| BindError::Listen {
            address: SocketAddr::new(serving.address, serving.port),
            source,
        };
        let listener = socket::listen(serving).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self {
            listener,
            address,
            tls,
            max_streams: serving.http2_max_streams.unwrap_or(STREAMS),
        })
    }

    /// Its certificates, to set a shared one.
    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(&self.tls.certificates)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers by `handler` until `stop`; then requests in flight may finish for a few seconds.
    pub async fn serve(
        self,
        handler: Arc<impl Handler>,
        metrics: ServingMetrics,
        stop: CancellationToken,
    ) {
        info!(address = %self.address, "Serving securely");
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls.config));
        let open = Connections::new(CONNECTIONS, metrics);
        let mut accepting = Accepting::new(self.listener);
        let mut connections = JoinSet::new();
        let mut reload = interval(RELOAD);
        reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
        reload.reset();
        loop {
            let (stream, address) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepting.next() => accepted,
                _ = reload.tick() => {
                    let certificates = Arc::clone(&self.tls.certificates);
                    connections.spawn_blocking(move || certificates.refresh());
                    continue;
                }
                Some(_) = connections.join_next() => continue,
            };
            let place = open.admit(address.ip(), Instant::now());
            let http = http(self.max_streams);
            let (acceptor, handler, stop) = (acceptor.clone(), Arc::clone(&handler), stop.clone());
            connections.spawn(async move {
                let connection = connection(stream, address, &place, acceptor, http, handler, stop);
                tokio::select! {
                    () = place.shed() => {}
                    ended = connection => if let Err(reason) = ended {
                        debug!(peer = %address, error = %reason, "connection failed");
                    }
                }
            });
        }
        drop(accepting);
        let done = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, done).await.is_err() {
            debug!("some HTTPS requests did not finish");
        }
    }
}

fn http(streams: u32) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES as usize);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .max_header_list_size(HEAD_BYTES)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_concurrent_streams(streams);
    http
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    place: &Connection,
    acceptor: TlsAcceptor,
    http: Builder<TokioExecutor>,
    handler: Arc<impl Handler>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let handshake = async {
        let Some(stream) = refuse_plain(stream).await? else {
            return Err("an HTTP request on the HTTPS port".into());
        };
        Ok::<_, Failure>(acceptor.accept(stream).await?)
    };
    let stream = tokio::select! {
        handshake = timeout(HANDSHAKE, handshake) => if let Ok(stream) = handshake {
            stream?
        } else {
            place.count(Closed::Handshake);
            return Err("no TLS handshake in time".into());
        },
        () = stop.cancelled() => return Ok(()),
    };
    let (_, session) = stream.get_ref();
    let peer = Peer {
        address,
        certificates: session.peer_certificates().unwrap_or_default().into(),
    };
    // Decided by ALPN alone, as in Go, so that no task waits for a first byte without a limit.
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let http = if is_http2 {
        http.http2_only()
    } else {
        http.http1_only()
    };
    let last = CancellationToken::new();
    let service = service_fn(|request| {
        let in_flight = place.request();
        let (handler, peer, last) = (Arc::clone(&handler), peer.clone(), last.clone());
        async move {
            let is_head = request.method() == Method::HEAD;
            let mut answer = match refuse(&request) {
                Some(refusal) => refusal,
                None => handler.answer(request, peer).await,
            };
            if is_head {
                answer = answer::without_body(answer);
            }
            in_flight.answered(answer.status());
            if is_http2 && answer.headers_mut().remove(header::CONNECTION).is_some() {
                last.cancel();
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(Flushed::new(stream, place.sending()));
    let connection = http.serve_connection(stream, service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        () = last.cancelled() => connection.as_mut().graceful_shutdown(),
        () = place.idle_for(IDLE) => {
            place.count(Closed::Idle);
            connection.as_mut().graceful_shutdown();
            return timeout(CLOSE_TIMEOUT, connection).await.unwrap_or(Ok(()));
        }
    }
    connection.await
}

/// Waits for the first byte. A connection that begins with an HTTP request gets an answer about
/// that, and `None`; any other is given back as it was.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
    let mut first = [0; 5];
    let length = stream.peek(&mut first).await?;
    let begins = |method: &&[u8]| length > 0 && method.starts_with(&first[..length]);
    if !METHODS.iter().any(begins) {
        return Ok(Some(stream));
    }
    // A connection that is closed with bytes unread is reset, and the answer is lost.
    let mut request = [0; 4096];
    let _ = stream.try_read(&mut request)?;
    stream.write_all(PLAIN_ANSWER).await?;
    stream.shutdown().await?;
    Ok(None)
}

/// The refusal of a request that no page serves, before anything looks at it: its path or method would be remembered,
/// logged or sent on.
fn refuse<B>(request: &Request<B>) -> Option<answer::Answer> {
    if !HTTP_METHODS.contains(request.method()) {
        return Some(answer::wrong_method());
    }
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > URI_BYTES {
        let text = "414 URI too long";
        return Some(answer::error(StatusCode::URI_TOO_LONG, text));
    }
    None
}
