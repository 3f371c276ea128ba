//! A server's settings, a client with and without certificates, and the cluster that reviews callers.

#![allow(
    clippy::expect_used,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use futures::FutureExt;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use kube::{Config, client::ConfigExt};
use outrigger_kube::{
    api::Api,
    fixture::scripted::{self, ScriptedAnswer},
};
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    ClientConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::server::{
    Access, Checks, Pages, Server, ServerParts, ServingMetrics,
    settings::{AccessSettings, Certificate, Serving, TlsVersion},
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
    pub access: AccessSettings,
    pub profiling: bool,
}

/// The settings of a command line without flags, on a free port of this machine.
pub fn settings() -> Settings {
    Settings {
        serving: serving(Certificate::SelfSigned),
        access: AccessSettings {
            authentication_kubeconfig: None,
            authentication_skip_lookup: false,
            client_ca_file: None,
            authorization_always_allow_paths: ["/healthz", "/readyz", "/livez"]
                .map(String::from)
                .into(),
            authorization_kubeconfig: None,
        },
        profiling: true,
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
    let access = Access::with(&settings.access, api.clone(), api);
    let access = Arc::new(access.unwrap());
    let verbosity = Arc::new(AtomicU32::new(0));
    let set = Arc::clone(&verbosity);
    let pages = Pages::new(
        &json!({"ClusterName": "blue"}),
        settings.profiling,
        move |v| set.store(v, Relaxed),
    );
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

/// The client's credentials.
pub enum Identity {
    Anonymous,
    Token(&'static str),
    Certificate {
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        headers: Vec<(&'static str, &'static str)>,
    },
}

impl Identity {
    pub fn with_headers(mut self, more: &[(&'static str, &'static str)]) -> Self {
        if let Self::Certificate { headers, .. } = &mut self {
            headers.extend(more);
        }
        self
    }
}

pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// One request on a connection of its own.
pub async fn fetch(
    address: SocketAddr,
    identity: &Identity,
    method: Method,
    path: &str,
    body: &'static str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "localhost");
    match identity {
        Identity::Anonymous => {}
        Identity::Token(token) => {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        Identity::Certificate { headers, .. } => {
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
        }
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    send(address, identity, request).await
}

/// `request` as it is, on a connection of its own.
pub async fn send(
    address: SocketAddr,
    identity: &Identity,
    request: Request<Full<Bytes>>,
) -> Reply {
    let stream = connect(address, identity).await.unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    read(sender.send_request(request).await.unwrap()).await
}

/// A TLS session without a request.
pub async fn connect(address: SocketAddr, identity: &Identity) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config(identity)))
        .connect(name, stream)
        .await
}

async fn read(reply: Response<Incoming>) -> Reply {
    let (head, body) = reply.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply {
        code: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

fn config(identity: &Identity) -> ClientConfig {
    let mut any_server = Config::new("https://localhost".parse().unwrap());
    any_server.accept_invalid_certs = true;
    let mut config = any_server.rustls_client_config().unwrap();
    if let Identity::Certificate { chain, key, .. } = identity {
        let key = key.clone_key();
        let key = ring::default_provider().key_provider.load_private_key(key);
        let pair = CertifiedKey::new(chain.clone(), key.unwrap());
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
    }
    config
}

/// The API server's part: CAs in the `ConfigMap`, reviews of tokens and of rights.
pub struct Cluster {
    pub clients: Authority,
    counts: Arc<(AtomicUsize, AtomicUsize)>,
    refuses: Arc<AtomicBool>,
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            clients: Authority::new("clients"),
            counts: Arc::default(),
            refuses: Arc::default(),
        }
    }

    /// Reviews of tokens and of rights so far.
    pub fn reviews(&self) -> (usize, usize) {
        (self.counts.0.load(Relaxed), self.counts.1.load(Relaxed))
    }

    /// From now on everything is refused, or nothing.
    pub fn refuses(&self, refuses: bool) {
        self.refuses.store(refuses, Relaxed);
    }

    pub fn api(&self) -> Api {
        let map = json!({ "metadata": {}, "data": {
            "client-ca-file": self.clients.pem,
        }});
        let counts = Arc::clone(&self.counts);
        let refuses = Arc::clone(&self.refuses);
        Api::new(scripted::client(move |request| {
            let (map, counts, refuses) = (map.clone(), Arc::clone(&counts), Arc::clone(&refuses));
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let answered = |answered| {
                    if refuses.load(Relaxed) {
                        return scripted::refusal(403, "Forbidden");
                    }
                    answered
                };
                match path.rsplit('/').next().unwrap() {
                    "extension-apiserver-authentication" => answered(scripted::json(200, &map)),
                    "tokenreviews" => {
                        counts.0.fetch_add(1, Relaxed);
                        answered(token(&serde_json::from_slice(&body).unwrap()))
                    }
                    "subjectaccessreviews" => {
                        counts.1.fetch_add(1, Relaxed);
                        answered(rights(&serde_json::from_slice(&body).unwrap()))
                    }
                    _ => scripted::refusal(404, "NotFound"),
                }
            }
            .boxed()
        }))
    }
}

fn token(review: &Value) -> ScriptedAnswer {
    let is_authenticated = review["spec"]["token"] == "scraper";
    let user = json!({
        "username": "system:serviceaccount:mon:scraper",
        "groups": ["system:serviceaccounts", "system:authenticated"],
    });
    let status = json!({ "authenticated": is_authenticated, "user": if is_authenticated { user } else { json!({}) } });
    scripted::json(
        201,
        &json!({ "metadata": {}, "spec": {}, "status": status }),
    )
}

/// AUTH-7.
fn rights(review: &Value) -> ScriptedAnswer {
    let spec = &review["spec"];
    let attributes = json!({ "path": "/metrics", "verb": "get" });
    let allowed = spec["nonResourceAttributes"] == attributes
        && spec["user"] == "system:serviceaccount:mon:scraper";
    let status = json!({ "allowed": allowed });
    scripted::json(
        201,
        &json!({ "metadata": {}, "spec": {}, "status": status }),
    )
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub fn sign(&self, name: &str, groups: &[&str]) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::Certificate {
            chain: vec![certificate.der().clone()],
            key: key.serialize_der().try_into().unwrap(),
            headers: Vec::new(),
        }
    }
}
