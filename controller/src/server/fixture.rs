//! A server's settings, a client with and without certificates, and the cluster that reviews callers.

#![allow(
    clippy::expect_used,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod client;
pub mod cluster;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use http::Method;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    client::{Identity, Reply, fetch},
    cluster::Cluster,
};
use crate::server::{
    Access, Checks, Pages, Server, ServerParts, ServingMetrics,
    settings::{Authentication, Authorization, Certificate, PageSettings, Serving, TlsVersion},
};

/// A server on a free port of this machine.
pub fn serving(certificate: Certificate) -> Serving {
    Serving {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        certificate,
        min_tls: TlsVersion::default(),
        permit_port_sharing: false,
    }
}

/// The settings of a server and of the access to it.
pub struct Settings {
    pub serving: Serving,
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub pages: PageSettings,
}

/// The settings of a command line without flags, on a free port of this machine.
pub fn settings() -> Settings {
    let seconds = std::time::Duration::from_secs;
    Settings {
        serving: serving(Certificate::SelfSigned),
        authentication: Authentication {
            kubeconfig: None,
            skip_lookup: false,
            token_cache_ttl: seconds(10),
            client_ca_file: None,
        },
        authorization: Authorization {
            kubeconfig: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(String::from).into(),
            authorized_ttl: seconds(10),
            unauthorized_ttl: seconds(10),
        },
        pages: PageSettings {
            configz: json!({}),
            profiling: true,
        },
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub access: Arc<Access>,
    pub checks: Checks,
    pub pages: Pages,
    pub verbosity: Arc<AtomicU32>,
    pub cluster: Cluster,
    pub stop: CancellationToken,
    pub tasks: JoinSet<()>,
}

/// A server on a free port, with the scripted cluster.
pub async fn serve(change: impl FnOnce(&mut Settings)) -> Running {
    let server = begin(change, Cluster::new(), Registry::default());
    server.access.look_up().await;
    server
}

/// [`serve`] before the cluster was asked for anything.
pub fn begin(change: impl FnOnce(&mut Settings), cluster: Cluster, registry: Registry) -> Running {
    let mut settings = settings();
    change(&mut settings);
    let server = Server::bind(&settings.serving).unwrap();
    let address = server.address();
    let api = Some(cluster.api());
    let access = Access::with(
        &settings.authentication,
        &settings.authorization,
        api.clone(),
        api,
    );
    let access = Arc::new(access.unwrap());
    let verbosity = Arc::new(AtomicU32::new(0));
    let set = Arc::clone(&verbosity);
    let pages = Pages::new(settings.pages, move |v| set.store(v, Relaxed));
    let checks = Checks::default();
    let parts = ServerParts {
        checks: checks.clone(),
        registry: Arc::new(registry),
        access: Arc::clone(&access),
        pages: pages.clone(),
        metrics: ServingMetrics::default(),
    };
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(parts, stop.clone()));
    Running {
        address,
        access,
        checks,
        pages,
        verbosity,
        cluster,
        stop,
        tasks,
    }
}

impl Running {
    pub async fn get(&self, identity: &Identity, path: &str) -> Reply {
        fetch(self.address, identity, Method::GET, path, "").await
    }
}
