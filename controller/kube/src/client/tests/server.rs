//! A TLS server that notes the logins of requests, and a proxy that notes where to.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{CertificateParams, CertifiedKey, DnType, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::certificate::AnyClient;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// PEM.
    pub(super) ca: String,
    logins: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Option<String>>>,
    _tasks: JoinSet<()>,
}

/// A self-signed certificate for this common name, which ended in 2026 if it is called "expired".
pub(super) fn pair(name: &str) -> CertifiedKey<KeyPair> {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    if name == "expired" {
        params.not_after = rcgen::date_time_ymd(2026, 2, 3);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    CertifiedKey { cert, signing_key }
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::speaking(&["h2", "http/1.1"]).await
    }

    /// That offers these protocols.
    pub(super) async fn speaking(protocols: &[&str]) -> Self {
        let own = pair("server");
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyClient(crypto)))
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let logins = Arc::<Mutex<Vec<String>>>::default();
        let refused = Arc::<Mutex<Option<String>>>::default();
        let mut tasks = JoinSet::new();
        let (noted, refuses) = (Arc::clone(&logins), Arc::clone(&refused));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                let refuses = Arc::clone(&refuses);
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let chain = stream.get_ref().1.peer_certificates();
                    let name = chain.map_or_else(String::new, common_name);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let header = request.headers().get(AUTHORIZATION);
                        let header = header.map(|header| header.to_str().unwrap().to_owned());
                        let login = header.unwrap_or_else(|| name.clone());
                        let is_refused = refuses.lock().unwrap().as_ref() == Some(&login);
                        let mut noted = noted.lock().unwrap();
                        if noted.last() != Some(&login) {
                            noted.push(login);
                        }
                        async move {
                            let code = if is_refused { 401 } else { 200 };
                            let answer = Response::builder().status(code);
                            Ok::<_, Infallible>(answer.body(answered(request).await).unwrap())
                        }
                    });
                    let http = auto::Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            address,
            ca: own.cert.pem(),
            logins,
            refused,
            _tasks: tasks,
        }
    }

    /// `Authorization`, else the common name of the certificate, of each request with another login than the one before.
    pub(super) fn logins(&self) -> Vec<String> {
        self.logins.lock().unwrap().clone()
    }

    /// Answers 401 to requests with this login from now on.
    pub(super) fn refuse(&self, login: &str) {
        *self.refused.lock().unwrap() = Some(login.to_owned());
    }
}

fn common_name(chain: &[CertificateDer<'_>]) -> String {
    let (_, first) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
    let name = first.subject().iter_common_name().next().unwrap();
    name.as_str().unwrap().to_owned()
}

/// The answer to a request. Answers to a watch and about `/endless` never end.
async fn answered(request: Request<Incoming>) -> BoxBody<Bytes, Infallible> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=true") {
        let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        return BoxBody::new(StreamBody::new(frames));
    }
    if request.uri().path() == "/endless" {
        let spaces = Bytes::from_static(&[b' '; 1 << 12]);
        let frames = futures::stream::repeat_with(move || Ok(Frame::data(spaces.clone())));
        return BoxBody::new(StreamBody::new(frames));
    }
    let _ = request.into_body().collect().await;
    Full::new(Bytes::from_static(b"{}")).boxed()
}

/// State of the open connections.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    /// Nothing comes through any more, and nothing says so.
    Dead,
    Closed,
}

/// A way to a server.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    fate: watch::Sender<Option<Fate>>,
    opened: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Relay {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fate, opened) = (watch::Sender::new(None), Arc::<AtomicUsize>::default());
        let (fates, counted) = (fate.clone(), Arc::clone(&opened));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let mut fate = fates.subscribe();
                connections.spawn(async move {
                    let mut onward = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut stream, &mut onward) => return,
                        _ = fate.changed() => {}
                    }
                    if matches!(*fate.borrow(), Some(Fate::Dead)) {
                        // Both sockets stay open.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self {
            address,
            fate,
            opened,
            _tasks: tasks,
        }
    }

    /// Decides what happens to the connections that are open now.
    pub(super) fn meet(&self, fate: Fate) {
        self.fate.send_replace(Some(fate));
    }

    /// How many connections were opened.
    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// The first lines of the requests that were let through.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A CONNECT proxy for those who show `login`.
pub(super) async fn proxy(login: &'static str) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let mut tasks = JoinSet::new();
    let noted = Arc::clone(&requests);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let noted = Arc::clone(&noted);
            connections.spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                if !head.contains(login) {
                    let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                    stream.write_all(refusal).await.unwrap();
                    return;
                }
                let first = head.lines().next().unwrap().to_owned();
                let to = first.split(' ').nth(1).unwrap().to_owned();
                noted.lock().unwrap().push(first);
                let mut onward = TcpStream::connect(to).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut onward).await;
            });
        }
    });
    Proxy {
        address,
        requests,
        _tasks: tasks,
    }
}
