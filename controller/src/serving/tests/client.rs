//! A TLS client that trusts any server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::{Config, client::ConfigExt};
use rustls::{
    ClientConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The client's credentials.
pub(crate) enum Identity {
    Anonymous,
    Token(&'static str),
    Certificate {
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        headers: Vec<(&'static str, &'static str)>,
    },
}

impl Identity {
    pub(crate) fn with_headers(mut self, more: &[(&'static str, &'static str)]) -> Self {
        if let Self::Certificate { headers, .. } = &mut self {
            headers.extend(more);
        }
        self
    }
}

pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// One request on a connection of its own.
pub(crate) async fn fetch(
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
pub(crate) async fn send(
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
pub(crate) async fn connect(
    address: SocketAddr,
    identity: &Identity,
) -> io::Result<TlsStream<TcpStream>> {
    handshake(address, config(identity)).await
}

async fn handshake(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    handshake_from(Ipv4Addr::LOCALHOST, address, config).await
}

async fn handshake_from(
    peer: Ipv4Addr,
    address: SocketAddr,
    config: ClientConfig,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((peer, 0).into())?;
    let stream = socket.connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

/// A request without a credential from the address `peer`, on a connection of its own.
///
/// # Errors
/// The server closed the connection without an answer.
pub(crate) async fn ask_from(
    peer: Ipv4Addr,
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let stream = handshake_from(peer, address, config(&Identity::Anonymous)).await?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    Ok(read(sender.send_request(request).await?).await)
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

/// HEAD as a client of HTTP/2 sends it.
pub(crate) async fn head_over_http2(address: SocketAddr, path: &str) -> Reply {
    let stream = negotiated(address, &["h2"]).await;
    over_http2(stream, Method::HEAD, path).await
}

/// The protocol that the server takes of h2 and HTTP/1.1; with h2 also the code of `/healthz`.
pub(crate) async fn negotiate(address: SocketAddr) -> (String, Option<u16>) {
    let stream = negotiated(address, &["h2", "http/1.1"]).await;
    let chosen = stream.get_ref().1.alpn_protocol().unwrap();
    let chosen = String::from_utf8(chosen.to_vec()).unwrap();
    if chosen != "h2" {
        return (chosen, None);
    }
    let reply = over_http2(stream, Method::GET, "/healthz").await;
    (chosen, Some(reply.code))
}

pub(crate) async fn negotiated(address: SocketAddr, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut config = config(&Identity::Anonymous);
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().into())
        .collect();
    handshake(address, config).await.unwrap()
}

async fn over_http2(stream: TlsStream<TcpStream>, method: Method, path: &str) -> Reply {
    let uri = format!("https://localhost{path}");
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    send_over_http2(stream, request).await.0
}

/// The answer to `request`, on a connection that the server then ends.
pub(crate) async fn last_over_http2(address: SocketAddr, request: Request<Full<Bytes>>) -> Reply {
    let stream = negotiated(address, &["h2"]).await;
    let (reply, mut connection) = send_over_http2(stream, request).await;
    let ended = timeout(Duration::from_secs(10), connection.join_next());
    ended.await.expect("it is open").unwrap().unwrap().unwrap();
    reply
}

async fn send_over_http2(
    stream: TlsStream<TcpStream>,
    request: Request<Full<Bytes>>,
) -> (Reply, JoinSet<hyper::Result<()>>) {
    let executor = TokioExecutor::new();
    let handshake = hyper::client::conn::http2::handshake(executor, TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let reply = read(sender.send_request(request).await.unwrap()).await;
    // Without its sender the client would end the connection.
    tasks.spawn(async move {
        let _sender = sender;
        std::future::pending().await
    });
    (reply, tasks)
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
