//! Where the API server is and who this process is to it: a kubeconfig, a flag, or the Pod. Never guessed.
//!
//! The binary loads a [`Source`] once; the login reads the same files again while the process runs. An error names the flag
//! and the file, and never quotes a credential.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::{
    Config,
    client::Body,
    config::{AuthInfo, ExecInteractiveMode, Kubeconfig},
};
use outrigger_core::text::without_login;
use secrecy::ExposeSecret;
use tower::{BoxError, util::BoxCloneSyncService};
use tracing::{info, warn};

use super::proxy::proxy;
use crate::error::chain;

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
    /// A flag, a proxy, a certificate or a credential that cannot be used, as a sentence.
    #[error("{0}")]
    Unusable(String),
}

impl SourceError {
    /// No client can be built for `server`.
    pub(super) fn no_client(server: &Uri, reason: &str) -> Self {
        Self::Unusable(format!(
            "cannot build a client for the API server at {server}: {reason}"
        ))
    }
}

impl Source {
    /// Reads the kubeconfig or the Pod's service account, and which proxy the environment names. Makes
    /// no request and runs no credential plugin. Blocks on the disk.
    ///
    /// # Errors
    /// A source that cannot be read, or names no API server.
    pub fn load(&self) -> Result<ApiServer, SourceError> {
        let (mut config, proxy_url) = self.read()?;
        if let Some(server) = anonymous(&config.cluster_url) {
            warn!(
                %server,
                "the URL of the API server names a user, which is left out: give its credentials in the \
                 kubeconfig's user"
            );
            config.cluster_url = server;
        }
        let (server, proxy_url) = (&config.cluster_url, proxy_url.as_deref());
        let proxy = proxy(server, proxy_url, &Matcher::from_env()).map_err(|reason| {
            SourceError::Unusable(format!("the proxy on the way to the API server: {reason}"))
        })?;
        if let Some(proxy) = &proxy {
            info!(%server, proxy = %proxy.uri(), "API server is reached through a proxy");
        }
        Ok(ApiServer {
            config,
            source: Some(self.clone()),
            way: Way::Network(proxy),
        })
    }

    /// The configuration, and the proxy that the kubeconfig names.
    fn read(&self) -> Result<(Config, Option<String>), SourceError> {
        let is_whole = |url: &Uri| url.scheme().is_some() && url.authority().is_some();
        let master = self.master.as_ref().map(|text| {
            let url = text.parse().ok().filter(is_whole);
            url.ok_or_else(|| {
                let text = without_login(text);
                SourceError::Unusable(format!(
                    "--master {text:?} is not a URL such as https://10.0.0.1:6443"
                ))
            })
        });
        let master = master.transpose()?;
        let (mut config, proxy_url) = match (&self.kubeconfig, &master) {
            (Some(path), _) => from_file(path).map_err(|reason| SourceError::Kubeconfig {
                path: path.clone(),
                reason,
            })?,
            (None, Some(server)) => (Config::new(server.clone()), None),
            (None, None) => {
                let config = Config::incluster().map_err(SourceError::NotInCluster)?;
                (config, None)
            }
        };
        if let Some(server) = master {
            config.cluster_url = server;
        }
        prepare(&mut config.auth_info)
            .map_err(|reason| SourceError::no_client(&config.cluster_url, &reason))?;
        Ok((config, proxy_url))
    }
}

/// The URL without its user and password, if it has any: no request sends them, and each message would show them.
fn anonymous(url: &Uri) -> Option<Uri> {
    let (_, host) = url.authority()?.as_str().rsplit_once('@')?;
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    Some(Uri::from_parts(parts).unwrap_or_default())
}

/// The configuration and the `proxy-url` of the kubeconfig at `path`.
///
/// # Errors
/// A kubeconfig that cannot be read or used, as one line: the parser draws the lines of the file below it, with the
/// secrets that are in them.
fn from_file(path: &Path) -> Result<(Config, Option<String>), String> {
    let refuse = |error: kube::config::KubeconfigError| {
        let text = chain(&error);
        text.lines().next().unwrap_or_default().to_owned()
    };
    let file = Kubeconfig::read_from(path).map_err(refuse)?;
    let proxy_url = proxy_url(&file);
    let config = Config::try_from(file).map_err(refuse)?;
    Ok((config, proxy_url))
}

/// `proxy-url` of the current context's cluster. kube's own field may have the proxy of the environment instead.
fn proxy_url(file: &Kubeconfig) -> Option<String> {
    let current = file.current_context.as_ref()?;
    let mut contexts = file.contexts.iter();
    let context = contexts.find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = file.clusters.iter().find(|cluster| cluster.name == *name)?;
    cluster.cluster.as_ref()?.proxy_url.clone()
}

/// Reads the file with the token, so that another token is another configuration, and trims the token, as client-go
/// does: kube sends its newline too. The file goes before a token that is given beside it.
fn prepare(user: &mut AuthInfo) -> Result<(), String> {
    if let Some(path) = user.token_file.take().filter(|path| !path.is_empty()) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        if text.trim().is_empty() {
            return Err(format!("{path} has no token in it"));
        }
        user.token = Some(text.into());
    }
    let token = user.token.take();
    let token = token.as_ref().map_or("", ExposeSecret::expose_secret);
    let token = token.trim();
    HeaderValue::from_str(token)
        .map_err(|_| "the token holds characters that no HTTP header can")?;
    user.token = (!token.is_empty()).then(|| token.into());
    if let Some(exec) = &mut user.exec {
        // A controller has no terminal.
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    Ok(())
}

/// An API server, who we are to it, and the way to it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(super) config: Config,
    /// The files that are read again; absent: none.
    pub(super) source: Option<Source>,
    pub(super) way: Way,
}

/// Answers requests: an API server behind the network, or in place of it.
pub type HttpService = BoxCloneSyncService<Request<Body>, HttpResponse, BoxError>;

/// The answer, whose body may still be on its way.
pub type HttpResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Through this proxy, if there is one.
    Network(Option<Intercept>),
    InProcess(HttpService),
}

impl ApiServer {
    /// A server in this process, for simulations. Requests to it have no credentials.
    pub fn in_process(service: HttpService) -> Self {
        Self {
            config: Config::new(Uri::from_static("http://in-process")),
            source: None,
            way: Way::InProcess(service),
        }
    }

    /// Its URL, for messages.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// The server at `url` on this machine, which knows the users of the cluster too, such as this program's own; without a
    /// proxy, and with any certificate.
    #[must_use]
    pub fn at(mut self, url: Uri) -> Self {
        self.config.cluster_url = url;
        self.source = None;
        self.config.tls_server_name = None;
        self.config.accept_invalid_certs = true;
        self.config.root_cert_file = None;
        self.config.root_cert = None;
        self.way = Way::Network(None);
        self
    }

    /// The configuration as the files have it now, for the same server: another one may be another cluster's. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// A source that cannot be read, as a sentence.
    pub(super) fn read_again(&self) -> Result<Config, String> {
        let mut config = self.config.clone();
        if let Some(source) = &self.source {
            let (newest, _) = source.read().map_err(|error| error.to_string())?;
            let same = config.cluster_url;
            config = newest;
            config.cluster_url = same;
        }
        Ok(config)
    }
}
