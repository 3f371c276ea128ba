//! The proxy between this process and the API server, if there is one.
//!
//! `proxy-url` of the kubeconfig goes before the environment. There `HTTPS_PROXY` counts, or `HTTP_PROXY` for an API server
//! without TLS, or else `ALL_PROXY`, unless `NO_PROXY` names the API server or it is on this machine.

use std::net::IpAddr;

use http::Uri;
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::{
        legacy::connect::{
            HttpConnector,
            proxy::{SocksV5, Tunnel},
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use kube::{Config, client::ConfigExt};
use tokio::net::TcpStream;
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

use super::transport::{PING_AFTER, PING_TIMEOUT};
use crate::error::chain;

/// Makes the connections that carry the bytes of TLS to the API server.
pub(super) type Dialer = BoxCloneSyncService<Uri, Stream, BoxError>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// The proxy to `server`: that of the kubeconfig, else that of the environment.
///
/// # Errors
/// A `proxy-url` that is none, as a sentence.
pub(super) fn proxy(
    server: &Uri,
    proxy_url: Option<&str>,
    environment: &Matcher,
) -> Result<Option<Intercept>, String> {
    if let Some(url) = proxy_url.filter(|url| !url.is_empty()) {
        let proxy = Matcher::builder().all(url).build().intercept(server);
        // The URL may have a password in it.
        let why = "proxy-url is not the URL of a proxy; write it as http://10.0.0.1:3128";
        return proxy.map(Some).ok_or_else(|| why.to_owned());
    }
    Ok(environment.intercept(server).filter(|_| !is_local(server)))
}

/// A server on this machine needs no entry in `NO_PROXY`, as in Go.
fn is_local(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Dials through `proxy`, or directly.
///
/// # Errors
/// A kind of proxy that is not known, or CAs that cannot be used, as a sentence.
pub(super) fn dialer(proxy: Option<Intercept>) -> Result<Dialer, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    tcp.set_tcp_user_timeout(Some(PING_AFTER + PING_TIMEOUT));
    let Some(proxy) = proxy else {
        let direct = tcp.map_response(Stream::Http).map_err(Into::into);
        return Ok(Dialer::new(direct));
    };
    let uri = proxy.uri().clone();
    match uri.scheme_str() {
        Some("http") => {
            let mut tunnel = Tunnel::new(uri, tcp);
            if let Some(header) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(header.clone());
            }
            let tunnel = tunnel.map_response(Stream::Http);
            Ok(Dialer::new(tunnel.map_err(Into::into)))
        }
        Some("https") => {
            // The CAs of the machine, for the proxy is not the API server.
            let tls = Config::new(uri.clone()).rustls_client_config();
            let https = HttpsConnectorBuilder::new()
                .with_tls_config(tls.map_err(|error| chain(&error))?)
                .https_only()
                .enable_http1()
                .wrap_connector(tcp);
            let mut tunnel = Tunnel::new(uri, https);
            if let Some(header) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(header.clone());
            }
            Ok(Dialer::new(tunnel.map_err(Into::into)))
        }
        Some("socks5" | "socks5h") => {
            let port = uri.port_u16().unwrap_or(1080);
            let host = uri.host().unwrap_or_default();
            let uri = format!("http://{host}:{port}").parse();
            let mut socks = SocksV5::new(uri.map_err(|_| "it names no host")?, tcp);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            // The proxy resolves names.
            let socks = socks.local_dns(false).map_response(Stream::Http);
            Ok(Dialer::new(socks.map_err(Into::into)))
        }
        scheme => Err(format!(
            "unsupported scheme {scheme:?} of a proxy, must be http, https, or socks5"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(server: &'static str, no_proxy: &str) -> Option<String> {
        let environment = Matcher::builder()
            .https("http://proxy.example:3128")
            .http("plain.example:8080")
            .no(no_proxy)
            .build();
        let proxy = proxy(&Uri::from_static(server), None, &environment).unwrap();
        proxy.map(|proxy| proxy.uri().to_string())
    }

    /// kube 5.0.0 compares `NO_PROXY` with the address of the proxy.
    #[test]
    fn no_proxy_is_about_the_api_server() {
        for (server, no_proxy, is_direct) in [
            ("https://api.example.com:6443", "", false),
            ("https://api.example.com:6443", "proxy.example", false),
            ("https://api.example.com:6443", "*", true),
            (
                "https://API.example.com:6443",
                " other , Example.com ",
                true,
            ),
            ("https://api.example.com:6443", ".example.com", true),
            ("https://notexample.com:6443", "example.com", false),
            ("https://10.96.0.1", "10.96.0.0/12", true),
            ("https://10.96.0.1", "10.0.0.0/16", false),
            ("https://10.96.0.1:6443", "10.96.0.1", true),
            ("https://[fd00::1]:6443", "fd00::/64", true),
            // This machine.
            ("https://localhost:6443", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
        ] {
            let proxy = (!is_direct).then(|| "http://proxy.example:3128/".to_owned());
            let context = format!("{server} with NO_PROXY={no_proxy}");
            assert_eq!(to(server, no_proxy), proxy, "{context}");
        }
        let plain = to("http://api.example.com:8080", "");
        assert_eq!(plain.as_deref(), Some("http://plain.example:8080/"));
    }

    #[test]
    fn the_kubeconfig_goes_before_the_environment() {
        let server = Uri::from_static("https://127.0.0.1:6443");
        let environment = Matcher::builder().no("*").build();
        let socks = proxy(&server, Some("socks5://10.0.0.9"), &environment);
        let socks = socks.unwrap().unwrap();
        assert_eq!(socks.uri(), "socks5://10.0.0.9/");
        dialer(Some(socks)).unwrap();
        for url in ["ftp://a", "http://user:hush@a b"] {
            let error = proxy(&server, Some(url), &environment).unwrap_err();
            assert!(error.starts_with("proxy-url is not"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
