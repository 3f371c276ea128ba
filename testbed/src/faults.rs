//! A layer in front of the API server that fails on demand and remembers what it saw.
//!
//! ```text
//!  client ──► FaultProxy ──► kube-apiserver
//!               │  ▲
//!    requests() ▼  │ inject(rule), cut_watches(), refuse_connections()
//!                test
//! ```
//!
//! Requests that no rule matches go to the real API server, and their answers come back unchanged. The proxy speaks plain
//! HTTP/1.1 on loopback and adds its own client certificate, so that every caller is the user that the proxy was started
//! for; a request with a bearer token is passed on without the certificate and counts as the token's owner. Connection
//! upgrades (exec, port-forward) are not passed on. Events of watches are lines of JSON.
//!
//! A test injects a [`Rule`], which is narrowed down to the requests that it is about, and waits for [`Recorded`] requests
//! instead of a time. Rules match in the order of their injection.
//!
//! ```
//! use http::Method;
//! use outrigger_testbed::faults::{Cut, Fault, Rule};
//!
//! // The second status write of a Node fails, and each watch of Nodes ends after ten events.
//! let write = Rule::new(Fault::too_many_requests(1))
//!     .method(Method::PATCH)
//!     .path_contains("/nodes/")
//!     .path_ends("/status")
//!     .skip(1)
//!     .times(1);
//! let watch = Rule::new(Fault::CutWatch { after: 10, cut: Cut::Expired }).path_contains("/nodes");
//! # let _ = (write, watch);
//! ```

mod forward;
mod record;
mod rule;
mod watches;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::Client;
use parking_lot::RwLock;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
};

use self::{forward::Forwarder, record::Recorder, rule::Rules, watches::Watches};
pub use self::{
    record::{Outcome, Recorded},
    rule::{Cut, Fault, Injected, Rule},
};
use crate::{
    ControlPlane, Error, Result,
    control_plane::{MASTERS, reserve_port},
    identity,
};

/// A running proxy. Ends, with all connections, when dropped. It belongs to the async
/// runtime that it was started on.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<State>,
    address: SocketAddr,
    kubeconfig: PathBuf,
    open: watch::Sender<bool>,
    /// Keeps the port bound while no proxy listens.
    _port: TcpSocket,
    _server: JoinSet<()>,
}

struct State {
    rules: Rules,
    watches: Watches,
    recorder: Recorder,
    forwarder: RwLock<Arc<Forwarder>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// Starts a proxy whose callers may do everything.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        Self::start_as(plane, "testbed-admin", Some(MASTERS)).await
    }

    /// Starts a proxy whose callers are this user, see [`ControlPlane::kubeconfig`].
    pub async fn start_as(plane: &ControlPlane, user: &str, group: Option<&str>) -> Result<Self> {
        let (port, address) = reserve_port(Ipv4Addr::LOCALHOST.into())?;
        let listener = listen(address)?;
        let state = Arc::new(State {
            rules: Rules::default(),
            watches: Watches::default(),
            recorder: Recorder::default(),
            forwarder: RwLock::new(Arc::new(Forwarder::new(plane, user, group)?)),
        });
        let (open, opened) = watch::channel(true);
        let mut server = JoinSet::new();
        server.spawn(serve(Arc::clone(&state), listener, address, opened));
        let text = identity::kubeconfig(&format!("http://{address}"), None, None);
        let kubeconfig = plane.write_kubeconfig(&format!("proxy-{user}"), &text)?;
        let proxy = Self {
            state,
            address,
            kubeconfig,
            open,
            _port: port,
            _server: server,
        };
        proxy.settled().await;
        Ok(proxy)
    }

    /// The address of the proxy, `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig whose server is the proxy. The file goes when the control plane goes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// A client through the proxy, on the current runtime. It never retries.
    pub fn client(&self) -> Result<Client> {
        let mut config = kube::Config::new(self.url().parse().unwrap_or_default());
        config.default_retry = false;
        Client::try_from(config).map_err(Error::kube("make a client"))
    }

    /// Adds a rule. The first rule that matches a request acts.
    pub fn inject(&self, rule: Rule) -> Injected {
        self.state.rules.inject(rule)
    }

    /// Removes all rules. A fault that has begun goes on.
    pub fn clear_rules(&self) {
        self.state.rules.clear();
    }

    /// Ends the open watches whose path contains `path`, and returns how many those were.
    pub fn cut_watches(&self, path: &str, cut: Cut) -> usize {
        self.state.watches.cut(path, cut)
    }

    /// Leads to another control plane from now on, whose administrator each caller is, and ends the open watches.
    pub fn lead_to(&self, plane: &ControlPlane) -> Result<()> {
        let forwarder = Forwarder::new(plane, "testbed-admin", Some(MASTERS))?;
        *self.state.forwarder.write() = Arc::new(forwarder);
        self.cut_watches("", Cut::Abrupt);
        Ok(())
    }

    /// Closes every connection and refuses new ones until
    /// [`accept_connections`](Self::accept_connections). Returns when that is so.
    pub async fn refuse_connections(&self) {
        self.open.send_replace(false);
        self.settled().await;
    }

    /// Accepts connections again. Returns when the proxy listens.
    pub async fn accept_connections(&self) {
        self.open.send_replace(true);
        self.settled().await;
    }

    /// Returns when the server does what `open` asks for.
    async fn settled(&self) {
        let mut changes = self.state.recorder.subscribe();
        let is_open = *self.open.borrow();
        let _ = changes.wait_for(|log| log.listening == is_open).await;
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.recorder.requests()
    }

    /// Forgets the requests so far and returns them.
    pub fn take_requests(&self) -> Vec<Recorded> {
        self.state.recorder.take()
    }

    /// Waits until the requests so far satisfy `condition`, for at most `deadline`.
    /// Returns them, or `None` when time ran out.
    pub async fn wait_for(
        &self,
        deadline: Duration,
        condition: impl Fn(&[Recorded]) -> bool + Send + Sync,
    ) -> Option<Vec<Recorded>> {
        let mut changes = self.state.recorder.subscribe();
        let fulfilled = changes.wait_for(|log| condition(&log.requests));
        let log = tokio::time::timeout(deadline, fulfilled).await.ok()?.ok()?;
        Some(log.requests.clone())
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    listen().map_err(Error::io(format!("listen on {address}")))
}

/// Accepts connections while `open`, and drops all of them when that changes.
async fn serve(
    state: Arc<State>,
    listener: TcpListener,
    address: SocketAddr,
    mut open: watch::Receiver<bool>,
) {
    let mut listener = Some(listener);
    loop {
        if *open.borrow_and_update() {
            let Some(listener) = listener.take().or_else(|| listen(address).ok()) else {
                return;
            };
            state.recorder.set_listening(true);
            accept(&state, &listener, &mut open).await;
        } else {
            state.recorder.set_listening(false);
            if open.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Returns, with all connections closed, when `open` changes.
async fn accept(state: &Arc<State>, listener: &TcpListener, open: &mut watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = open.changed() => break,
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(connection(Arc::clone(state), stream));
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

async fn connection(state: Arc<State>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| forward::answer(&state, request));
    // An error is a client that went away or a fault of ours; both are recorded.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
