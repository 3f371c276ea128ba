//! The steps that [`Listener`](super::Listener) takes on the file system: directory, lock, check, socket, removal.
//!
//! The file belongs to whoever made it: on drop it is removed only if device and inode are still those of this process.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::time::{Instant, sleep};

use super::{Endpoint, SocketError};

/// Owner and group: controller and provider share the group (`fsGroup`), not the user.
const SOCKET_MODE: u32 = 0o660;
const DIRECTORY_MODE: u32 = 0o770;

const BACKLOG: i32 = 1024;

/// Another start in the same directory lasts milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The file of a socket that this process listens on. Dropping it removes the file, unless another
/// process has put its own there.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|current| current == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Makes the directory and what is missing above it. A directory that exists keeps its mode: an `emptyDir`
/// is root's.
pub(super) fn make_directory(directory: &Path) -> Result<(), SocketError> {
    let mut missing: Vec<_> = directory
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .collect();
    while let Some(directory) = missing.pop() {
        let failed = |error| SocketError::io("make the directory", directory)(error);
        match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
            Ok(()) => {}
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(failed(error)),
        }
        // The umask has removed bits.
        fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE)).map_err(failed)?;
    }
    Ok(())
}

/// Keeps other providers from starting in the same directory until it is dropped.
pub(super) async fn lock(directory: &Path) -> Result<File, SocketError> {
    let file = File::open(directory).map_err(SocketError::io("open the directory", directory))?;
    let give_up = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                sleep(LOCK_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(SocketError::Locked {
                    directory: directory.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(SocketError::io("lock the directory", directory)(error));
            }
        }
    }
}

/// Returns whether a socket is there; an error if something else is.
pub(super) fn is_socket(path: &Path) -> Result<bool, SocketError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok(true),
        Ok(_) => Err(SocketError::NotASocket {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SocketError::io("look at", path)(error)),
    }
}

/// Makes the socket beside its path and moves it there once it has its mode and listens: at no
/// moment can a process without the right find it or connect.
pub(super) fn listen(endpoint: &Endpoint) -> Result<(UnixListener, SocketFile), SocketError> {
    let (path, temporary) = (endpoint.path(), endpoint.temporary_path());
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(SocketError::io("remove what a crash left at", &temporary)(
                error,
            ));
        }
        _ => {}
    }
    let listener = make(&temporary).and_then(|listener| {
        // The identity is read before the move: afterwards the path may be another's.
        let identity = identity(&temporary)?;
        fs::rename(&temporary, path)?;
        Ok((
            listener,
            SocketFile {
                path: path.to_owned(),
                identity,
            },
        ))
    });
    listener.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        SocketError::io("make the socket", path)(error)
    })
}

fn make(path: &Path) -> io::Result<UnixListener> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
