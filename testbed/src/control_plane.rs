//! etcd and kube-apiserver, started, stopped and talked to.
//!
//! A test starts a [`ControlPlane`] or takes the [shared](crate::shared()) one, gets clients and kubeconfigs of any user
//! from it, and drops it. RBAC holds as in a cluster, so that a controller that lacks a right fails here too. No controller
//! and no scheduler runs, except those that the caller starts.

mod components;

use std::{
    fs,
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{net::TcpSocket, task};

use crate::{
    Error, Result,
    binaries::Binaries,
    identity::{self, Authority, Pair},
    process::{Process, Scratch},
};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// How a control plane is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time limit for etcd and for kube-apiserver to get ready.
    pub deadline: Duration,
    /// Leaves data, logs and kubeconfigs behind when the control plane ends.
    pub keep: bool,
    /// The address of this machine that the API server listens at.
    pub address: IpAddr,
    /// With the admission that Pods meet in a cluster, and a way to kubelets: kube-controller-manager and kube-scheduler
    /// are going to run.
    pub workloads: bool,
    /// The API server trusts no kubelet whose serving certificate the cluster's authority did not sign.
    pub serving_certificates: bool,
    /// Further arguments of kube-apiserver. A later flag wins over an earlier one, so
    /// these can also replace what the testbed sets.
    pub apiserver_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(90),
            keep: false,
            address: Ipv4Addr::LOCALHOST.into(),
            workloads: false,
            serving_certificates: false,
            apiserver_args: Vec::new(),
        }
    }
}

/// A running etcd and kube-apiserver with RBAC, and Node authorization and `NodeRestriction` for kubelets, on loopback
/// unless [`Options::address`] is another.
///
/// No process outlives it: dropping it kills both, and so does the end of the process
/// that owns it, however that comes about (return, panic, Ctrl-C, `kill -9`). Its
/// directory goes with it, unless [`Options::keep`] is set.
///
/// It is bound to no async runtime and can be shared by tests that have one each; clients
/// belong to the runtime that they were made on. Do not use it under a paused tokio
/// clock: its deadlines would pass at once.
///
/// Differences from a production control plane, besides etcd not syncing to disk: request limits are
/// out of the way, and Services have wide IPv4 and IPv6 ranges and node ports from 20000 to 60000. Without
/// [`Options::workloads`] the `ServiceAccount` admission plugin is off (Pods need no token controller). Controllers and a
/// scheduler do not run.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: kube-apiserver hangs when its etcd goes first, and the
    // directory must not go while a process writes to it.
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Option<Process>>,
    scratch: Scratch,
    /// Keeps the port from other processes, also while no API server runs.
    _port: TcpSocket,
    address: SocketAddr,
    authority: Authority,
    admin: Pair,
    binaries: Binaries,
    options: Options,
    kubeconfigs: AtomicUsize,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    ///
    /// The programs are built first if they are not there, see [`Binaries::find`]. The
    /// error of a component that does not come up has the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = Binaries::find().await?;
        let scratch = Scratch::new(options.keep)?;
        let (port, address) = reserve_port(options.address)?;
        let authority = Authority::new("outrigger-testbed")?;
        let admin = authority.client("testbed-admin", Some(MASTERS))?;
        let plane = Self {
            apiserver: Mutex::new(None),
            etcd: Mutex::new(None),
            scratch,
            _port: port,
            address,
            authority,
            admin,
            binaries,
            options,
            kubeconfigs: AtomicUsize::new(0),
        };
        components::write_files(plane.dir(), &plane.authority, address.ip())?;
        plane.start_etcd().await?;
        plane.start_apiserver().await?;
        Ok(plane)
    }

    /// The address of the API server, such as `https://127.0.0.1:port`. It never changes.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The directory with logs (`etcd.log`, `kube-apiserver.log`), certificates and data.
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// [`Options::serving_certificates`].
    pub const fn serving_certificates(&self) -> bool {
        self.options.serving_certificates
    }

    /// Writes a kubeconfig for a user, with a fresh client certificate, and returns its
    /// path. RBAC decides what the user may do; the group `system:masters` may do all.
    ///
    /// The file goes when the control plane goes.
    pub fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let pair = self.authority.client(user, group)?;
        let url = self.url();
        let text = identity::kubeconfig(&url, Some(self.authority.pem()), Some(&pair));
        self.write_kubeconfig(user, &text)
    }

    /// Like [`kubeconfig`](Self::kubeconfig), for a user who may do everything.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig("testbed-admin", Some(MASTERS))
    }

    /// A client that may do everything, on the current runtime. It never retries and
    /// has no read time limit.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.config(&self.admin)).map_err(Error::kube("make a client"))
    }

    /// A client of a user, on the current runtime; see [`kubeconfig`](Self::kubeconfig).
    pub fn client_of(&self, user: &str, group: Option<&str>) -> Result<Client> {
        let pair = self.authority.client(user, group)?;
        Client::try_from(self.config(&pair)).map_err(Error::kube("make a client"))
    }

    /// A client without an identity, for requests that bring a token.
    pub(crate) fn anonymous_client(&self) -> Result<Client> {
        let mut config = self.config(&self.admin);
        config.auth_info = kube::config::AuthInfo::default();
        Client::try_from(config).map_err(Error::kube("make a client"))
    }

    /// Kills the API server as `kill -9` does and returns when it is gone. Until
    /// [`start_apiserver`](Self::start_apiserver), connections to its port are refused.
    pub async fn kill_apiserver(&self) -> Result<()> {
        let process = self.apiserver.lock().take();
        end(process).await
    }

    /// Starts the API server at its old address and waits until it is ready. An API
    /// server that still runs is killed first.
    pub async fn start_apiserver(&self) -> Result<()> {
        self.kill_apiserver().await?;
        let mut process = Process::start(
            "kube-apiserver",
            &self.binaries.kube_apiserver,
            &components::apiserver_args(self.dir(), self.address, &self.options),
            self.dir().join("kube-apiserver.log"),
        )?;
        let client = self.client()?;
        let probe = || probe_apiserver(&client);
        process.ready(self.options.deadline, probe).await?;
        *self.apiserver.lock() = Some(process);
        Ok(())
    }

    /// Ends API server and etcd and returns when they are gone. Dropping does the same,
    /// but blocks its thread for some milliseconds.
    pub async fn stop(self) -> Result<()> {
        let gone = task::spawn_blocking(move || drop(self)).await;
        gone.map_err(|ended| Error::io("stop the control plane")(ended.into()))
    }

    async fn start_etcd(&self) -> Result<()> {
        let mut process = Process::start(
            "etcd",
            &self.binaries.etcd,
            &components::etcd_args(self.dir()),
            self.dir().join("etcd.log"),
        )?;
        let socket = components::etcd_socket(self.dir());
        process.listens(&socket, self.options.deadline).await?;
        *self.etcd.lock() = Some(process);
        Ok(())
    }

    fn config(&self, identity: &Pair) -> kube::Config {
        identity::client_config(self.uri(), &self.authority, identity)
    }

    fn uri(&self) -> http::Uri {
        // An address always makes a URL; the default would show in the first request.
        self.url().parse().unwrap_or_default()
    }

    pub(crate) fn write_kubeconfig(&self, user: &str, text: &str) -> Result<PathBuf> {
        let number = self.kubeconfigs.fetch_add(1, Ordering::Relaxed);
        let name = user.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = self.dir().join(format!("{name}-{number}.kubeconfig"));
        write_private(&path, text)?;
        Ok(path)
    }
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        options.open(path)?.write_all(text.as_bytes())
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// A port that no other process can bind: it stays bound here, and the API server shares it with
/// `--permit-port-sharing`. A socket that does not listen gets no connections.
pub(crate) fn reserve_port(address: IpAddr) -> Result<(TcpSocket, SocketAddr)> {
    let reserve = || {
        let socket = match address {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseport(true)?;
        socket.bind(SocketAddr::from((address, 0)))?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    reserve().map_err(Error::io(format!("reserve a port of {address}")))
}

/// The API server's own check, and the namespaces that clients rely on, which it
/// makes shortly after.
async fn probe_apiserver(client: &Client) -> Result<(), String> {
    let ready = http::Request::get("/readyz").body(Vec::new());
    let ready = ready.map_err(|error| error.to_string())?;
    let answer = client.request_text(ready).await;
    answer.map_err(|error| error.to_string())?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["default", "kube-system"] {
        let namespace = namespaces.get(name).await;
        namespace.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn end(process: Option<Process>) -> Result<()> {
    let gone = task::spawn_blocking(move || drop(process)).await;
    gone.map_err(|ended| Error::io("stop a component")(ended.into()))
}
