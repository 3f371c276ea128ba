//! The provider's socket: who may listen on it, and who could take its place.

use std::{fmt, fs, io, os::unix::fs::MetadataExt, path::Path, sync::Arc};

use parking_lot::Mutex;
use tokio::net::UnixStream;
use tracing::warn;

use super::{ByteStream, Connect, Connecting, Endpoint};

/// Makes connections to whichever process listens at an endpoint, if it belongs to a user that is accepted. That is
/// asked of the kernel for each connection, before a byte is sent.
#[derive(Clone, Debug)]
pub struct ProviderSocket {
    endpoint: Endpoint,
    /// Empty: any.
    users: Arc<[u32]>,
    /// Why a third user could have answered the last connection.
    replaceable: Arc<Mutex<Option<String>>>,
}

/// The process that listens is not one of the provider's users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that listens there is one of user {user}, and --provider-user accepts only {}", list(.users))]
struct ForeignListener {
    user: u32,
    users: Arc<[u32]>,
}

fn list(users: &[u32]) -> String {
    let users: Vec<_> = users.iter().map(ToString::to_string).collect();
    users.join(", ")
}

impl ProviderSocket {
    /// The socket at `endpoint`; processes of `users` may listen on it, of any user if that is empty.
    pub fn new(endpoint: Endpoint, users: impl Into<Arc<[u32]>>) -> Self {
        Self {
            endpoint,
            users: users.into(),
            replaceable: Arc::default(),
        }
    }

    /// Checks that a process of `user` may listen on the socket.
    fn accept(&self, user: u32) -> Result<(), ForeignListener> {
        if self.users.is_empty() || self.users.contains(&user) {
            return Ok(());
        }
        let users = Arc::clone(&self.users);
        Err(ForeignListener { user, users })
    }

    /// Logs once that a third user can put another process in the place of the one of `user`.
    fn tell(&self, user: u32) {
        let replaceable = self.replaceable_by_third(user);
        let mut last = self.replaceable.lock();
        if let Some(why) = &replaceable
            && *last != replaceable
        {
            warn!(
                error = %why,
                "provider's socket is open to another user, whose process can answer in its place: let root or the \
                 provider own the socket and its directory, and set --provider-user={user}"
            );
        }
        *last = replaceable;
    }

    /// Why a third user can do so, where `--provider-user` names none.
    fn replaceable_by_third(&self, user: u32) -> Option<String> {
        if !self.users.is_empty() {
            return None;
        }
        let owner = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.uid());
        // The file system has it without a system call of its own.
        let own = owner(Path::new("/proc/self"))?;
        let path = self.endpoint.path();
        let owners = [("socket", Some(path)), ("directory", path.parent())];
        owners.into_iter().find_map(|(what, path)| {
            let (path, uid) = (path?, owner(path?)?);
            is_third(uid, own, user).then(|| {
                format!(
                    "the {what} {} belongs to user {uid}, who is neither root, the user of this process ({own}) nor \
                     that of the provider ({user})",
                    path.display()
                )
            })
        })
    }
}

/// The mode of a directory proves nothing: an `emptyDir` is root's and open to all.
const fn is_third(owner: u32, own: u32, listens: u32) -> bool {
    owner != 0 && owner != own && owner != listens
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
            let user = stream.peer_cred()?.uid();
            socket.accept(user).map_err(io::Error::other)?;
            socket.tell(user);
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}

/// Advice about a socket that cannot be connected to, for people.
pub(super) fn hint(error: &io::Error) -> &'static str {
    if matches!(error.get_ref(), Some(inner) if inner.is::<ForeignListener>()) {
        return "end that process, or name its user in the flag";
    }
    match error.kind() {
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
    use std::os::unix::fs::PermissionsExt;

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
    fn only_a_third_users_socket_or_directory_can_be_taken() {
        assert!(!is_third(0, 10_001, 10_002) && !is_third(10_001, 10_001, 10_002));
        assert!(!is_third(10_002, 10_001, 10_002) && is_third(1_000, 10_001, 10_002));
        assert!(is_third(1_000, 0, 0));
        let dir = tempfile::tempdir().unwrap();
        let own = fs::metadata(dir.path()).unwrap().uid();
        // Directories of this process's user; an emptyDir is open to all.
        for mode in [0o755, 0o777, 0o2777] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                at(&dir.path().join("x"), &[]).replaceable_by_third(own),
                None
            );
        }
    }

    #[test]
    fn each_error_of_a_socket_has_its_hint() {
        let hint = |kind: io::ErrorKind| hint(&kind.into());
        assert!(hint(io::ErrorKind::PermissionDenied).contains("mode 0660"));
        assert!(hint(io::ErrorKind::PermissionDenied).contains("fsGroup"));
        assert!(hint(io::ErrorKind::ConnectionRefused).contains("no process listens"));
        assert!(hint(io::ErrorKind::NotFound).contains("is this its endpoint"));
    }
}
