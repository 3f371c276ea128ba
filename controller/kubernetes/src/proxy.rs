//! Which proxy is between this process and the API server, by the rules of Go's `net/http`, so that
//! the environment of a Pod means the same to this controller as to Kubernetes' own components.
//!
//! `proxy-url` of the kubeconfig goes before the environment. In the environment `HTTPS_PROXY` counts,
//! or `HTTP_PROXY` for an API server without TLS, unless `NO_PROXY` names the API server.
//!
//! kube reads the environment for a kubeconfig alone, not in a Pod, never `HTTP_PROXY`, and takes no address without
//! a scheme.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use ipnet::IpNet;

/// The variables that name the proxy.
#[expect(
    clippy::struct_field_names,
    reason = "the fields are named as the variables"
)]
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    pub(super) https_proxy: String,
    pub(super) http_proxy: String,
    pub(super) no_proxy: String,
}

impl Environment {
    /// That of the process.
    pub(super) fn read() -> Self {
        let first = |names: [&str; 2]| {
            let values = names
                .into_iter()
                .filter_map(|name| std::env::var(name).ok());
            values
                .into_iter()
                .find(|value| !value.is_empty())
                .unwrap_or_default()
        };
        Self {
            https_proxy: first(["HTTPS_PROXY", "https_proxy"]),
            http_proxy: first(["HTTP_PROXY", "http_proxy"]),
            no_proxy: first(["NO_PROXY", "no_proxy"]),
        }
    }
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// CONNECT, over TLS or not.
    Http,
    Https,
    /// The proxy resolves names.
    Socks5,
}

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) kind: Kind,
    /// Without user and password.
    pub(super) uri: Uri,
    /// User and password, decoded.
    pub(super) login: Option<(String, String)>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        write!(f, "{}", self.uri)
    }
}

impl Proxy {
    /// The proxy on the way to `server`, if there is one.
    ///
    /// # Errors
    /// An address that is none, as a sentence that names its source.
    pub(super) fn to(
        server: &Uri,
        proxy_url: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Self>, String> {
        if let Some(url) = proxy_url.filter(|url| !url.is_empty()) {
            return Self::parse(url).map(Some).map_err(|reason| {
                format!("proxy-url: {reason}; write it as http://10.0.0.1:3128")
            });
        }
        let (name, value) = if server.scheme_str() == Some("http") {
            ("HTTP_PROXY", &environment.http_proxy)
        } else {
            ("HTTPS_PROXY", &environment.https_proxy)
        };
        if value.is_empty() || goes_direct(server, &environment.no_proxy) {
            return Ok(None);
        }
        // Go takes `proxy:3128` for `http://proxy:3128`.
        let parsed = Self::parse(value).or_else(|reason| {
            if value.contains("://") {
                return Err(reason);
            }
            Self::parse(&format!("http://{value}"))
        });
        parsed.map(Some).map_err(|reason| {
            format!("the environment variable {name}: {reason}; write it as http://10.0.0.1:3128")
        })
    }

    fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url
            .parse()
            .map_err(|_| "it is not the URL of a proxy".to_owned())?;
        let kind = match uri.scheme_str() {
            Some("http") => Kind::Http,
            Some("https") => Kind::Https,
            Some("socks5" | "socks5h") => Kind::Socks5,
            Some(other) => {
                return Err(format!(
                    "unsupported scheme {other:?}, must be http, https, or socks5"
                ));
            }
            None => return Err("it is not the URL of a proxy".to_owned()),
        };
        let authority = uri.authority().ok_or("it names no host")?.as_str();
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (decoded(user), decoded(password))
        });
        let port = match kind {
            Kind::Http => 80,
            Kind::Https => 443,
            Kind::Socks5 => 1080,
        };
        let scheme = if kind == Kind::Https { "https" } else { "http" };
        let mut target = format!("{scheme}://{host}");
        if uri.port().is_none() {
            target = format!("{target}:{port}");
        }
        let uri = target.parse().map_err(|_| "it names no host".to_owned())?;
        Ok(Self { kind, uri, login })
    }

    /// Value of `Proxy-Authorization`.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.login.as_ref()?;
        super::authenticator::basic(user, password)
    }
}

/// `%40` and the like, which passwords in URLs need.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

/// True if `NO_PROXY` names the server, or it is on this machine.
fn goes_direct(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default().to_ascii_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = server.port_u16().unwrap_or_else(|| {
        if server.scheme_str() == Some("http") {
            80
        } else {
            443
        }
    });
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let entries = no_proxy
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase());
    entries
        .filter(|entry| !entry.is_empty())
        .any(|entry| matches(&entry, host, address, port))
}

/// True if an entry of `NO_PROXY` is about the host: `*`, an address, a range, a domain, with a port
/// or without.
fn matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(range) = entry.parse::<IpNet>() {
        return address.is_some_and(|address| range.contains(&address));
    }
    let (name, of_port) = host_and_port(entry);
    if of_port.is_some_and(|of_port| of_port != port.to_string()) {
        return false;
    }
    if let Ok(named) = name.parse::<IpAddr>() {
        return address.is_some_and(|address| address.to_canonical() == named.to_canonical());
    }
    let name = name
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(name);
    match name.strip_prefix('.') {
        Some("") => false,
        // Below the domain, and not the domain.
        Some(_) => host.ends_with(name),
        None if name.is_empty() => false,
        None => {
            host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.'))
        }
    }
}

/// Splits like Go's `net.SplitHostPort`; an IPv6 address needs brackets to have a port.
fn host_and_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[')
        && let Some((host, port)) = rest.split_once(']')
    {
        return (host, port.strip_prefix(':'));
    }
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

#[cfg(test)]
mod tests;
