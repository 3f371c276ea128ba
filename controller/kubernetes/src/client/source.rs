//! Where the API server is: a kubeconfig, a flag, or the Pod.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use kube::{
    Config,
    client::Body,
    config::{Cluster, KubeConfigOptions, Kubeconfig},
};
use outrigger_core::text::without_login;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tower::{BoxError, util::BoxCloneSyncService};
use tracing::{info, warn};

use crate::{
    certificate::pem_fault,
    error::chain,
    proxy::{Environment, Proxy},
};

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
        /// The defect.
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
    /// A proxy that cannot be used.
    #[error("the proxy on the way to the API server: {0}")]
    Proxy(String),
    /// Certificates or credentials that cannot be used.
    #[error("cannot build a client for the API server at {server}: {reason}")]
    Client {
        /// Its URL.
        server: String,
        /// The defect.
        reason: String,
    },
}

impl Source {
    /// Reads the kubeconfig or the Pod's service account, and which proxy the environment names. Makes
    /// no request and runs no credential plugin.
    pub async fn load(&self) -> Result<ApiServer, SourceError> {
        let master = match &self.master {
            Some(master) => Some(
                master
                    .parse::<Uri>()
                    .ok()
                    .filter(|uri| uri.scheme().is_some() && uri.authority().is_some())
                    .ok_or_else(|| SourceError::Master(without_login(master)))?,
            ),
            None => None,
        };
        let (mut config, proxy_url) = match (&self.kubeconfig, &master) {
            (Some(path), _) => from_file(path).await?,
            (None, Some(server)) => (Config::new(server.clone()), None),
            (None, None) => {
                let config = Config::incluster().map_err(SourceError::NotInCluster)?;
                (config, None)
            }
        };
        if let Some(server) = master {
            config.cluster_url = server;
        }
        if let Some(server) = anonymous(&config.cluster_url) {
            warn!(
                %server,
                "the URL of the API server names a user, which is left out: give its credentials in the \
                 kubeconfig's user"
            );
            config.cluster_url = server;
        }
        let environment = Environment::read();
        let proxy = Proxy::to(&config.cluster_url, proxy_url.as_deref(), &environment);
        let proxy = proxy.map_err(SourceError::Proxy)?;
        if let Some(proxy) = &proxy {
            info!(server = %config.cluster_url, ?proxy, "API server is reached through a proxy");
        }
        let kubeconfig = self.kubeconfig.as_deref().map(|path| {
            let verified = !config.accept_invalid_certs;
            let authorities = config.root_cert.as_deref().filter(|_| verified);
            crate::kubeconfig::Kubeconfig::new(path, authorities).map_err(|reason| {
                SourceError::Kubeconfig {
                    path: path.to_owned(),
                    reason,
                }
            })
        });
        Ok(ApiServer {
            kubeconfig: kubeconfig.transpose()?,
            config,
            way: Way::Network(proxy),
        })
    }
}

/// The URL without its user and password, if it has any: no request sends them, and each message would show them.
fn anonymous(url: &Uri) -> Option<Uri> {
    let (_, host) = url.authority()?.as_str().rsplit_once('@')?;
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    Some(Uri::from_parts(parts).unwrap_or_default())
}

/// The configuration and the `proxy-url` of a kubeconfig.
async fn from_file(path: &Path) -> Result<(Config, Option<String>), SourceError> {
    let refuse = |reason: String| SourceError::Kubeconfig {
        path: path.to_owned(),
        reason,
    };
    let mut file = Kubeconfig::read_from(path).map_err(|error| refuse(one_line(&chain(&error))))?;
    // kube takes a proxy from the environment by rules of its own where the file names none.
    let proxy_url =
        cluster(&mut file).and_then(|cluster| cluster.proxy_url.replace(ANY_PROXY.into()));
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| refuse(one_line(&chain(&error))))?;
    config.proxy_url = None;
    let exec = config.auth_info.exec.as_mut();
    if let Some(cluster) = exec.and_then(|exec| exec.cluster.as_mut()) {
        cluster.proxy_url.clone_from(&proxy_url);
    }
    Ok((config, proxy_url))
}

/// An error of the YAML parser without the excerpt that it draws below its sentence.
fn one_line(text: &str) -> String {
    let is_drawn = |line: &&str| {
        let line = line.trim_start();
        let line = line
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start();
        line.starts_with('|') || line.starts_with("-->") || line.is_empty()
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_drawn(line)).collect();
    lines.join(" ")
}

/// Stands in for `proxy-url` while kube reads a kubeconfig.
const ANY_PROXY: &str = "http://proxy";

/// The configuration of the kubeconfig at `path` as it is now. Blocks on the disk.
///
/// # Errors
/// A kubeconfig that cannot be read or used.
pub(crate) fn read_kubeconfig(path: &Path) -> Result<Config, SourceError> {
    // It reads files and waits for nothing.
    let read = from_file(path).now_or_never();
    let read = read.ok_or_else(|| SourceError::Kubeconfig {
        path: path.to_owned(),
        reason: "it was not read in one go".to_owned(),
    })?;
    read.map(|(config, _)| config)
}

/// The cluster of the current context.
fn cluster(file: &mut Kubeconfig) -> Option<&mut Cluster> {
    let current = file.current_context.as_ref()?;
    let context = file
        .contexts
        .iter()
        .find(|context| context.name == *current)?;
    let name = context.context.as_ref()?.cluster.clone();
    let cluster = file
        .clusters
        .iter_mut()
        .find(|cluster| cluster.name == name)?;
    cluster.cluster.as_mut()
}

/// An API server, who we are to it, and the way to it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(super) config: Config,
    /// The kubeconfig of `config`, which is read again.
    pub(super) kubeconfig: Option<crate::kubeconfig::Kubeconfig>,
    pub(super) way: Way,
}

/// Answers requests in place of an API server behind the network.
pub type InProcess =
    BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Through this proxy, if there is one.
    Network(Option<Proxy>),
    InProcess(InProcess),
}

impl ApiServer {
    /// A server in this process, for simulations. Requests to it have no credentials.
    pub fn in_process(service: InProcess) -> Self {
        Self {
            config: Config::new(Uri::from_static("http://in-process")),
            kubeconfig: None,
            way: Way::InProcess(service),
        }
    }

    /// A server at `url` that knows the users of the cluster too, such as this program's own, without a proxy. One of
    /// `authorities`, in PEM, has signed its certificate; without any, it may have any certificate, which is for a server on
    /// this machine alone.
    ///
    /// # Errors
    /// PEM that cannot be read, as a sentence.
    pub fn at(mut self, url: Uri, authorities: Option<&[u8]>) -> Result<Self, &'static str> {
        self.config.cluster_url = url;
        self.kubeconfig = None;
        self.config.tls_server_name = None;
        self.config.accept_invalid_certs = authorities.is_none();
        self.config.root_cert = match authorities {
            Some(pem) => {
                let ders =
                    CertificateDer::pem_slice_iter(pem).map(|der| der.map(|der| der.to_vec()));
                let ders: Result<_, _> = ders.collect();
                Some(ders.map_err(|error| pem_fault(&error))?)
            }
            None => None,
        };
        self.way = Way::Network(None);
        Ok(self)
    }
}
