//! The provider's socket: where it is, and who may listen on it.
//!
//! [`ProviderSocket`] is how the binary reaches a provider ([`Connect`]). The user of the process behind the socket is
//! asked of the kernel before a byte is sent.
//!
//! ```
//! use outrigger_provider::Endpoint;
//!
//! let endpoint: Endpoint = "unix:///run/outrigger/provider.sock".parse()?;
//! assert_eq!(endpoint.path(), "/run/outrigger/provider.sock");
//! assert!("tcp://10.0.0.1:8080".parse::<Endpoint>().is_err());
//! # Ok::<(), String>(())
//! ```

use std::{
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use tokio::net::UnixStream;

use super::{ByteStream, Connect, Connecting};

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
            return Err(format!(
                "provider endpoint {text:?} is not a Unix socket, and no other kind is supported; write \
                 unix:///path/to/provider.sock"
            ));
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

/// Makes connections to whichever process listens at an endpoint, if it belongs to a user that is accepted. That is
/// asked of the kernel for each connection, before a byte is sent.
#[derive(Clone, Debug)]
pub struct ProviderSocket {
    endpoint: Endpoint,
    /// Empty: any.
    users: Arc<[u32]>,
}

impl ProviderSocket {
    /// The socket at `endpoint`; processes of `users` may listen on it, of any user if that is empty.
    pub fn new(endpoint: Endpoint, users: impl Into<Arc<[u32]>>) -> Self {
        Self {
            endpoint,
            users: users.into(),
        }
    }
}

impl fmt::Display for ProviderSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl Connect for ProviderSocket {
    fn connect(&self) -> Connecting {
        let socket = self.clone();
        Box::pin(async move {
            let stream = UnixStream::connect(socket.endpoint.path()).await?;
            let (user, users) = (stream.peer_cred()?.uid(), &socket.users);
            if !users.is_empty() && !users.contains(&user) {
                let users: Vec<_> = users.iter().map(u32::to_string).collect();
                let foreign = format!(
                    "the process that listens there is one of user {user}, and --provider-user accepts only {}",
                    users.join(", ")
                );
                return Err(io::Error::new(io::ErrorKind::AddrInUse, foreign));
            }
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}

/// Advice about a socket that cannot be connected to, for people.
pub(super) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        // No attempt to connect ends with it but ours.
        io::ErrorKind::AddrInUse => "end that process, or name its user in the flag",
        io::ErrorKind::PermissionDenied => {
            "this process may not use the socket: it must have mode 0660 and a group that both \
             processes are in (fsGroup of the Pod), and the directories above must let them through"
        }
        io::ErrorKind::ConnectionRefused => {
            "a socket is there, but no process listens on it; is the provider running?"
        }
        _ => "is it running, and is this its endpoint?",
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use tokio::net::UnixListener;

    use super::*;

    fn at(path: &Path, users: &[u32]) -> ProviderSocket {
        let endpoint = format!("unix://{}", path.display()).parse().unwrap();
        ProviderSocket::new(endpoint, users)
    }

    #[tokio::test]
    async fn only_a_process_of_a_named_user_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("provider.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let own = fs::metadata(&path).unwrap().uid();
        for users in [&[][..], &[own], &[own + 1, own]] {
            assert!(at(&path, users).connect().await.is_ok(), "{users:?}");
        }
        let socket = at(&path, &[own + 1, own + 2]);
        let error = socket.connect().await.err().unwrap();
        let (first, second) = (own + 1, own + 2);
        assert_eq!(
            error.to_string(),
            format!(
                "the process that listens there is one of user {own}, and --provider-user accepts only {first}, \
                 {second}"
            )
        );
        assert!(hint(&error).contains("name its user"));
    }

    #[test]
    fn each_error_of_a_socket_has_its_hint() {
        let hint = |kind: io::ErrorKind| hint(&kind.into());
        assert!(hint(io::ErrorKind::PermissionDenied).contains("mode 0660"));
        assert!(hint(io::ErrorKind::PermissionDenied).contains("fsGroup"));
        assert!(hint(io::ErrorKind::ConnectionRefused).contains("no process listens"));
        assert!(hint(io::ErrorKind::NotFound).contains("is this its endpoint"));
    }

    #[test]
    fn an_endpoint_is_an_absolute_path_of_a_socket() {
        for (text, path) in [
            (
                "unix:///run/outrigger/provider.sock",
                "/run/outrigger/provider.sock",
            ),
            ("unix:/run/provider.sock", "/run/provider.sock"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.path().to_str(), Some(path));
            assert_eq!(endpoint.to_string(), format!("unix://{path}"));
        }
        let default: Endpoint = outrigger_api::DEFAULT_ENDPOINT.parse().unwrap();
        assert_eq!(default.to_string(), outrigger_api::DEFAULT_ENDPOINT);
    }

    #[test]
    fn anything_else_is_refused_with_a_sentence_that_helps() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        };
        for text in [
            "/run/provider.sock",
            "",
            "tcp://127.0.0.1:50051",
            "localhost:1",
        ] {
            check(text, "is not a Unix socket");
        }
        check("unix:///run/", "has no absolute path");
        check("unix:provider.sock", "has no absolute path");
        check("unix://run/provider.sock", "with three slashes");
        check("unix:///a\0b", "has no absolute path");
        check("unix:", "has no absolute path");
        check(&format!("unix:///{}", "x".repeat(100)), "has 101 bytes");
        assert!(
            format!("unix:///{}", "x".repeat(99))
                .parse::<Endpoint>()
                .is_ok()
        );
    }
}
