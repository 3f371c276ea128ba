//! Where the provider is.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Longest path of a socket, in bytes. The kernel takes 107; the rest is for the temporary name
/// that the other side binds first.
const MAX_PATH: usize = 100;

/// Where the provider listens: `unix:///run/outrigger/provider.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    path: PathBuf,
}

impl Endpoint {
    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for Endpoint {
    /// Why the text is not an endpoint.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("unix:") else {
            let network = [
                "tcp:", "dns:", "ipv4:", "ipv6:", "http:", "https:", "vsock:",
            ];
            let is_network = network.iter().any(|scheme| text.starts_with(scheme))
                || text.rsplit_once(':').is_some_and(|(_, port)| {
                    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
                });
            return Err(if is_network {
                format!(
                    "provider endpoint {text:?} is a network address; only Unix sockets are supported, \
                     since TCP without mutual TLS would let anyone answer: write unix:///path/to/provider.sock"
                )
            } else {
                format!(
                    "provider endpoint {text:?} is not a Unix socket; write unix:///path/to/provider.sock"
                )
            });
        };
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            // `unix:provider.sock`, or `unix://run/…` where `run` is read as a host.
            return Err(format!(
                "provider endpoint {text:?} has no absolute path; write unix:///path/to/provider.sock, \
                 with three slashes"
            ));
        }
        if path.len() > MAX_PATH {
            return Err(format!(
                "provider endpoint {text:?} is too long: its path has {} bytes, at most {MAX_PATH} are possible",
                path.len()
            ));
        }
        Ok(Self { path: path.into() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

#[cfg(test)]
mod tests;
