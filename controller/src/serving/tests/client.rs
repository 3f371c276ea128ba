//! A TLS client that trusts any server.

use std::{io, net::SocketAddr, sync::Arc};

use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The client's credentials.
pub(super) enum Identity {
    Nobody,
    Token(&'static str),
    Certificate {
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        headers: Vec<(&'static str, &'static str)>,
    },
}

impl Identity {
    pub(super) fn with_headers(mut self, more: &[(&'static str, &'static str)]) -> Self {
        if let Self::Certificate { headers, .. } = &mut self {
            headers.extend(more);
        }
        self
    }
}

pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// One request on a connection of its own.
pub(super) async fn fetch(
    address: SocketAddr,
    identity: &Identity,
    method: Method,
    path: &str,
    body: &'static str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "localhost");
    match identity {
        Identity::Nobody => {}
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
    let stream = connect(address, identity).await.unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    read(sender.send_request(request).await.unwrap()).await
}

/// A TLS session without a request.
pub(super) async fn connect(
    address: SocketAddr,
    identity: &Identity,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(config(identity)));
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, stream).await
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
pub(super) async fn head_over_http2(address: SocketAddr, path: &str) -> Reply {
    let mut config = config(&Identity::Nobody);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = Request::head(format!("https://localhost{path}"));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    read(sender.send_request(request).await.unwrap()).await
}

/// The protocol that the server takes of h2 and HTTP/1.1; with h2 also the code of `/healthz`.
pub(super) async fn negotiate(address: SocketAddr) -> (String, Option<u16>) {
    let mut config = config(&Identity::Nobody);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.unwrap();
    let chosen = stream.get_ref().1.alpn_protocol().unwrap();
    let chosen = String::from_utf8(chosen.to_vec()).unwrap();
    if chosen != "h2" {
        return (chosen, None);
    }
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = Request::get("https://localhost/healthz").body(Full::<Bytes>::default());
    let reply = sender.send_request(request.unwrap()).await.unwrap();
    (chosen, Some(reply.status().as_u16()))
}

fn config(identity: &Identity) -> ClientConfig {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer));
    match identity {
        Identity::Certificate { chain, key, .. } => config
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .unwrap(),
        _ => config.with_no_client_auth(),
    }
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
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
