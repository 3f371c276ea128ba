//! A TLS server that notes the client certificates, and a proxy that notes where to.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Method, Request, Response};
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
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// PEM.
    pub(super) ca: String,
    names: Arc<Mutex<Vec<String>>>,
    writes: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Option<String>>>,
    _tasks: JoinSet<()>,
}

/// A self-signed certificate for this common name.
pub(super) fn pair(name: &str) -> CertifiedKey<KeyPair> {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
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
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyClient))
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let names = Arc::<Mutex<Vec<String>>>::default();
        let writes = Arc::<Mutex<Vec<String>>>::default();
        let refused = Arc::<Mutex<Option<String>>>::default();
        let mut tasks = JoinSet::new();
        let (noted, refuses) = (Arc::clone(&names), Arc::clone(&refused));
        let written = Arc::clone(&writes);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                let (refuses, written) = (Arc::clone(&refuses), Arc::clone(&written));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let name = stream.get_ref().1.peer_certificates().map(|chain| {
                        let (_, first) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
                        let name = first.subject().iter_common_name().next().unwrap();
                        name.as_str().unwrap().to_owned()
                    });
                    noted.lock().unwrap().extend(name.clone());
                    let service = service_fn(move |request: Request<Incoming>| {
                        let refused = name.is_some() && *refuses.lock().unwrap() == name;
                        let written = Arc::clone(&written);
                        async move {
                            let code = if refused { 401 } else { 200 };
                            let answer = Response::builder().status(code);
                            Ok::<_, Infallible>(
                                answer.body(answered(request, &written).await).unwrap(),
                            )
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
            names,
            writes,
            refused,
            _tasks: tasks,
        }
    }

    /// The common names of the certificates, one for each connection that presented one.
    pub(super) fn presented(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }

    /// Methods of the requests that change something, which came completely.
    pub(super) fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }

    /// Answers 401 to requests on connections with this certificate.
    pub(super) fn refuse(&self, name: &str) {
        *self.refused.lock().unwrap() = Some(name.to_owned());
    }
}

/// The answer to a request. That to a watch never ends.
async fn answered(
    request: Request<Incoming>,
    written: &Mutex<Vec<String>>,
) -> BoxBody<Bytes, Infallible> {
    if request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch=true"))
    {
        let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        return BoxBody::new(StreamBody::new(frames));
    }
    let method = request.method().clone();
    if request.into_body().collect().await.is_ok() && method != Method::GET {
        written.lock().unwrap().push(method.to_string());
    }
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

/// Takes any certificate, of any version.
#[derive(Debug)]
struct AnyClient;

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let crypto = rustls::crypto::ring::default_provider();
        crypto.signature_verification_algorithms.supported_schemes()
    }
}
