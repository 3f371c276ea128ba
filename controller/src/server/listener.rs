//! The listener and its connections: how many there may be, how slow each may be, and how they end.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use outrigger_runtime::{log_repeated, metric_families, telemetry::Repeats};
use prometheus_client::metrics::counter::Counter;
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::{Id, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tracing::{debug, info, warn};

use super::tls::Tls;
use crate::server::settings::{Certificate, Serving};

/// Connections at once. Probes, scrapers and people need few; each costs memory.
pub(super) const TOTAL: usize = 512;

/// Connections of one address at once. Kubelets probe from the node's address, so that a Pod that uses up its own
/// share takes nothing from them.
pub(super) const PER_PEER: usize = 32;

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

metric_families! {
    /// Connections of the HTTPS servers.
    pub struct ServingMetrics {
        closed: Counter,
            "outrigger_https_connections_closed",
            "Connections that an HTTPS server closed at once: at the limit per peer address or of all";
    }
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
    serving: Serving,
    tls: Tls,
}

impl Server {
    /// Reads (or makes) the certificates and takes the port, so that a flag that cannot be followed
    /// ends the process before it does anything. From then on connections wait in the kernel until
    /// the server runs, which should be soon: probes wait with them. Call it in a runtime; it reads files.
    ///
    /// # Errors
    /// Another process has the port, the address is not ours, or the certificate cannot be used.
    pub fn bind(serving: &Serving) -> Result<Self, String> {
        let tls = Tls::open(serving)?;
        let bound = listen(serving).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| {
            let address = SocketAddr::new(serving.address, serving.port);
            format!("failed to listen on {address}: {error}")
        })?;
        Ok(Self {
            listener,
            address,
            serving: serving.clone(),
            tls,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers by `router` until `stop`; then requests in flight may finish for a few seconds. An answer with
    /// `Connection: close` is the last of its connection.
    pub async fn serve(mut self, router: Router, metrics: ServingMetrics, stop: CancellationToken) {
        info!(address = %self.address, "Serving securely");
        let mut connections = JoinSet::new();
        let mut peers = HashMap::<Id, IpAddr>::new();
        let repeats = Repeats::default();
        let mut reload = interval(RELOAD);
        reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
        reload.reset();
        let follows_files = self.serving.certificate != Certificate::SelfSigned;
        let mut reading = JoinSet::new();
        loop {
            let (stream, address) = tokio::select! {
                // The places of connections that have ended are free before another one is accepted.
                biased;
                () = stop.cancelled() => break,
                Some(ended) = connections.join_next_with_id() => {
                    peers.remove(&ended.map_or_else(|failure| failure.id(), |(id, ())| id));
                    continue;
                }
                Some(Ok(read)) = reading.join_next() => {
                    self.tls.replace(read);
                    continue;
                }
                _ = reload.tick(), if follows_files && reading.is_empty() => {
                    let serving = self.serving.clone();
                    reading.spawn_blocking(move || Tls::open(&serving));
                    continue;
                }
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
            };
            let peer = address.ip().to_canonical();
            if let Err((limit, most)) = place(&peers, peer) {
                metrics.closed.inc();
                log_repeated!(
                    warn, repeats, limit, %peer, limit, most,
                    "HTTPS connections are closed at once, since as many as the limit allows are open; look for a client at \
                     that address that opens many connections"
                );
                continue;
            }
            let (acceptor, router) = (self.tls.acceptor.clone(), router.clone());
            let served = serve_connection(stream, address, acceptor, router, stop.clone());
            let connection = connections.spawn(async move {
                if let Err(error) = served.await {
                    debug!(peer = %address, error, "connection failed");
                }
            });
            peers.insert(connection.id(), peer);
        }
        drop(self.listener);
        let done = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, done).await.is_err() {
            debug!("some HTTPS requests did not finish");
        }
    }
}

/// Finds room for one more connection of `peer` beside those of `peers`.
///
/// # Errors
/// The limit that is reached.
fn place(peers: &HashMap<Id, IpAddr>, peer: IpAddr) -> Result<(), (&'static str, usize)> {
    if peers.values().filter(|other| **other == peer).count() >= PER_PEER {
        return Err(("peer_limit", PER_PEER));
    }
    if peers.len() >= TOTAL {
        return Err(("total_limit", TOTAL));
    }
    Ok(())
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
async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let handshake = timeout(SLOW, acceptor.accept(stream));
    let Some(stream) = stop.run_until_cancelled(handshake).await else {
        return Ok(());
    };
    let stream = stream??;
    let (_, session) = stream.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default().into();
    let peer = Extension(Peer {
        address,
        certificates,
    });
    let service = TowerToHyperService::new(peer.layer(router));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(SLOW)
        .max_buf_size(HEAD_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(connection.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_has_few_places_and_all_together_have_a_bound() {
        let (mut tasks, mut peers) = (JoinSet::new(), HashMap::new());
        let mut add = |peers: &mut HashMap<Id, IpAddr>, count: usize, network: u8| {
            for nth in 0..count {
                let peer = IpAddr::from([10, 0, network, (nth / PER_PEER) as u8]);
                peers.insert(tasks.spawn(async {}).id(), peer);
            }
        };
        let (first, another) = ([10, 0, 0, 0].into(), [10, 0, 2, 0].into());
        add(&mut peers, PER_PEER - 1, 0);
        assert_eq!(place(&peers, first), Ok(()));
        add(&mut peers, 1, 0);
        assert_eq!(place(&peers, first), Err(("peer_limit", PER_PEER)));
        assert_eq!(place(&peers, another), Ok(()));
        add(&mut peers, TOTAL - PER_PEER, 1);
        assert_eq!(place(&peers, another), Err(("total_limit", TOTAL)));
    }
}
