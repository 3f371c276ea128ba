//! The identity of this process in elections, which the next process of its container may take over, so that a restart need
//! not wait for the end of its own lease.
//!
//! The binary makes one [`ProcessIdentity`] for all its electors. By default it is a name that no other process has.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use tokio::time::Instant;
use uuid::Uuid;

const LOCKED: &str = "another process holds its lock: give each replica a volume of its own";

/// Bytes of a file that are read: more than an identity has.
const MAX_BYTES: u64 = 4 * 1024;

/// The name of a process in elections.
#[derive(Debug)]
pub struct ProcessIdentity {
    /// Never the same in two processes that live.
    pub own: String,
    /// If a process before this one had the same identity: since when it is known to be dead.
    pub killed: Option<Instant>,
    /// Locked as long as it is open.
    file: Option<File>,
}

impl ProcessIdentity {
    /// `<hostname>_<random UUID>` (PROC-20), without a file.
    pub fn new() -> Self {
        format!("{}_{}", host(), Uuid::new_v4()).into()
    }

    /// The identity in the file at `path`, which outlives a process that is killed; a new one is written to it if it has
    /// none.
    ///
    /// The kernel's lock on the file proves that the process before is dead: it held it as long as it could act. An identity of
    /// another host does not count, since a file system of several machines may have two locks on one file.
    ///
    /// # Errors
    /// If it cannot be opened, read or written, or a process that lives has it.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let options = options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other(LOCKED),
            TryLockError::Error(error) => error,
        })?;
        let mut identity = Self::read_or_write(&mut file)?;
        identity.file = Some(file);
        Ok(identity)
    }

    /// The identity in `file`; a new one is written if there is none that counts.
    fn read_or_write(file: &mut File) -> io::Result<Self> {
        let mut text = Vec::new();
        Read::by_ref(file).take(MAX_BYTES).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        // Without the end of its line the machine went down while it was written.
        if let Some(own) = text.strip_suffix('\n')
            && let Some((name, _)) = own.rsplit_once('_')
            && name == host()
        {
            return Ok(Self {
                killed: Some(Instant::now()),
                ..own.into()
            });
        }
        let identity = Self::new();
        // Before a lease has it.
        let text = format!("{}\n", identity.own);
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        Ok(identity)
    }

    /// Empties the file: this process ends by itself, and a lease that it does not release has to expire.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&self) -> io::Result<()> {
        let file = self.file.as_ref();
        file.map_or(Ok(()), |file| file.set_len(0))
    }
}

impl<S: Into<String>> From<S> for ProcessIdentity {
    /// A name that no other process has.
    fn from(own: S) -> Self {
        Self {
            own: own.into(),
            killed: None,
            file: None,
        }
    }
}

impl Default for ProcessIdentity {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the host: in a Pod without the host's network the Pod's own name.
pub fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_process_has_the_identity_of_one_before_it_that_was_killed_and_of_none_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let first = ProcessIdentity::in_file(&path).unwrap();
        assert!(first.killed.is_none());
        let written = text(&path);
        assert_eq!(written.strip_suffix('\n'), Some(&*first.own));
        let refused = ProcessIdentity::in_file(&path).unwrap_err();
        assert_eq!(refused.to_string(), LOCKED);
        assert_eq!(text(&path), written);

        let own = first.own.clone();
        drop(first);
        for _ in 0..2 {
            let next = ProcessIdentity::in_file(&path).unwrap();
            assert_eq!(next.own, own);
            assert!(next.killed.is_some());
            assert_eq!(text(&path), written);
        }
    }

    #[test]
    fn what_is_no_identity_of_this_host_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let own = ProcessIdentity::in_file(&path).unwrap().own;
        let written = text(&path);
        let (host, cut) = (host(), written.len() - 1);
        for odd in [
            "other_1\n".to_owned(),
            format!("{host}\n"),
            // The machine went down while it was written.
            written[..cut].to_owned(),
            String::new(),
        ] {
            std::fs::write(&path, &odd).unwrap();
            let identity = ProcessIdentity::in_file(&path).unwrap();
            assert!(
                identity.killed.is_none() && identity.own != own,
                "{odd:.40}"
            );
            assert_eq!(text(&path), format!("{}\n", identity.own));
        }
    }

    #[test]
    fn a_process_that_ends_by_itself_leaves_its_identity_to_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let ended = ProcessIdentity::in_file(&path).unwrap();
        ended.forget().unwrap();
        let own = ended.own.clone();
        drop(ended);
        let next = ProcessIdentity::in_file(&path).unwrap();
        assert!(next.killed.is_none() && next.own != own);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut options = File::options();
        let mut full = options.read(true).write(true).open("/dev/full").unwrap();
        let error = ProcessIdentity::read_or_write(&mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
