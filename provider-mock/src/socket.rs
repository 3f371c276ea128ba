//! Unix sockets: how one is taken, and given back.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// Of a directory that has to be made.
const DIRECTORY_MODE: u32 = 0o770;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("another process answers on {}; end it, or choose another socket", path.display())]
    Live {
        /// The socket.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Unusable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket that is listened on; its file goes when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens. What a killed process left behind is taken over; a live socket is refused.
    pub async fn bind(path: &Path) -> Result<Self, SocketError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(SocketError::Live {
                path: path.to_owned(),
            });
        }
        let path = path.to_owned();
        Self::make(&path).map_err(|source| SocketError::Unusable { path, source })
    }

    fn make(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent()
            && !directory.exists()
        {
            DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(directory)?;
        }
        // Nobody can connect before the mode is right: the name appears last.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(MODE))?;
        let inode = fs::metadata(&temporary)?.ino();
        fs::rename(&temporary, path)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            inode,
        })
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process may have its own there by now.
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stale_is_taken_over_and_live_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/p.sock");
        let killed = Socket::bind(&path).await.unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        let error = Socket::bind(&path).await.unwrap_err().to_string();
        assert!(error.contains("p.sock"), "{error}");

        // A killed process drops nothing but its descriptors.
        drop(killed.listener_only());
        assert!(path.exists());
        let heir = Socket::bind(&path).await.unwrap();
        drop(heir);
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            0,
            "nothing is left"
        );
    }

    #[tokio::test]
    async fn a_successor_keeps_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.sock");
        let old = Socket::bind(&path).await.unwrap();
        fs::rename(&path, directory.path().join("aside")).unwrap();
        let _new = Socket::bind(&path).await.unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_cannot_be_made_is_named() {
        let error = Socket::bind(Path::new("/proc/none/p.sock"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("/proc/none/p.sock"), "{error}");
    }

    impl Socket {
        fn listener_only(mut self) -> UnixListener {
            self.inode = 0;
            let mut path = self.path.clone().into_os_string();
            path.push(".spare");
            let spare = UnixListener::bind(PathBuf::from(&path)).unwrap();
            fs::remove_file(path).unwrap();
            std::mem::replace(&mut self.listener, spare)
        }
    }
}
