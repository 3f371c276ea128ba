//! The identity of this process in elections, and of the processes before it in its container.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;
use tokio::time::Instant;
use uuid::Uuid;

/// Identities that a file keeps: so many processes may die one after the other before one holds a lease.
const KEPT: usize = 16;

/// Bytes of a file that are read: more than the identities that it keeps.
const MAX_BYTES: u64 = 16 * 1024;

/// The name of a process in elections, and the names of processes that are proven to be dead.
#[derive(Debug)]
pub struct ProcessIdentity {
    /// Never the same in two processes.
    pub own: String,
    /// Processes before this one that had the [identity file](ProcessIdentity::in_file), and were killed.
    pub predecessors: Vec<String>,
    /// When this process began: the predecessors were dead.
    began: Instant,
    file: Option<IdentityFile>,
}

/// The file with the identity of this process in its last line. Its lock is held as long as it is open.
#[derive(Debug)]
struct IdentityFile {
    file: File,
    /// Bytes before the last line.
    before: u64,
}

/// Why an identity file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// It cannot be opened, read or written.
    #[error("{0}; give the container a volume that it may write")]
    Io(#[from] io::Error),
    /// It is a device, a pipe, or the like.
    #[error("it is no regular file")]
    Irregular,
    /// Another process has the file, and lives.
    #[error("another process holds its lock: give each replica a volume of its own")]
    Locked,
}

impl ProcessIdentity {
    /// `<hostname>_<random UUID>` (PROC-20), without a file.
    pub fn new() -> Self {
        format!("{}_{}", host(), Uuid::new_v4()).into()
    }

    /// An identity that is also written to the file at `path`, which outlives the process and has the identities of the
    /// processes before.
    ///
    /// The kernel's lock on the file proves that they are dead: each held it as long as it could act. In a copy, which has
    /// a lock of its own, no identity counts. Neither does one of another host, since a file system of several machines
    /// may have two locks on one file.
    ///
    /// # Errors
    /// If the file cannot be used, or a process that lives has it.
    pub fn in_file(path: &Path) -> Result<Self, IdentityFileError> {
        let mut options = OpenOptions::new();
        // A pipe would wait for its other end, and a link leads to a file of others.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(IdentityFileError::Irregular);
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => IdentityFileError::Locked,
            TryLockError::Error(error) => error.into(),
        })?;
        let mut text = Vec::new();
        Read::by_ref(&mut file)
            .take(MAX_BYTES)
            .read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut identity = Self::new();
        let host = host();
        let inode = format!("inode {}:{}", metadata.dev(), metadata.ino());
        let mut lines = text.lines();
        let is_copy = lines.next() != Some(&*inode);
        let lines = lines
            .filter(|_| !is_copy)
            .filter(|line| line.rsplit_once('_').is_some_and(|(name, _)| name == host));
        identity.predecessors = lines.map(str::to_owned).collect();
        let excess = identity.predecessors.len().saturating_sub(KEPT);
        identity.predecessors.drain(..excess);

        // Before a lease has this identity. The predecessors stay: this process may die before it holds a lease.
        let mut lines = vec![&*inode];
        lines.extend(identity.predecessors.iter().map(String::as_str));
        let mut text = lines.join("\n") + "\n";
        let before = text.len() as u64;
        text.push_str(&identity.own);
        text.push('\n');
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        identity.file = Some(IdentityFile { file, before });
        Ok(identity)
    }

    /// When the processes were dead whose lease this one takes at once; none if there are none.
    pub fn killed(&self) -> Option<Instant> {
        (!self.predecessors.is_empty()).then_some(self.began)
    }

    /// Removes the identity from its file: this process ends by itself, and a lease that it does not release has to expire.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&self) -> io::Result<()> {
        let file = self.file.as_ref();
        file.map_or(Ok(()), |own| own.file.set_len(own.before))
    }
}

impl<S: Into<String>> From<S> for ProcessIdentity {
    /// A name that no other process has.
    fn from(own: S) -> Self {
        Self {
            own: own.into(),
            predecessors: Vec::new(),
            began: Instant::now(),
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

    /// The identities in the file.
    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn a_process_knows_those_before_it_and_none_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let first = ProcessIdentity::in_file(&path).unwrap();
        assert!(first.predecessors.is_empty());
        assert_eq!(lines(&path), [&*first.own]);
        let refused = ProcessIdentity::in_file(&path).unwrap_err();
        assert!(matches!(refused, IdentityFileError::Locked), "{refused}");
        assert_eq!(lines(&path), [&*first.own]);

        let first_own = first.own.clone();
        drop(first);
        let second = ProcessIdentity::in_file(&path).unwrap();
        assert_eq!(second.predecessors, [&*first_own]);
        let second_own = second.own.clone();
        drop(second);
        // The second may have died before it held a lease.
        let third = ProcessIdentity::in_file(&path).unwrap();
        assert_eq!(third.predecessors, [first_own, second_own]);
    }

    #[test]
    fn a_file_of_many_processes_keeps_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let identities = (0..KEPT + 3).map(|_| ProcessIdentity::in_file(&path).unwrap().own);
        let identities: Vec<_> = identities.collect();
        let last = ProcessIdentity::in_file(&path).unwrap();
        assert_eq!(last.predecessors, identities[3..]);
        assert_eq!(lines(&path).len(), KEPT + 1);
    }

    #[test]
    fn what_is_no_identity_of_this_host_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let own = ProcessIdentity::in_file(&path).unwrap().own;
        let mut text = std::fs::read(&path).unwrap();
        text.extend(format!("other_1\n\n_\n{}\n", host()).into_bytes());
        text.extend([0, 0xff]);
        std::fs::write(&path, text).unwrap();
        let identity = ProcessIdentity::in_file(&path).unwrap();
        assert_eq!(lines(&path), [&*own, &identity.own]);
        assert_eq!(identity.predecessors, [own]);
    }

    #[test]
    fn a_process_that_ends_by_itself_is_not_taken_for_one_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let killed = ProcessIdentity::in_file(&path).unwrap().own;
        let ended = ProcessIdentity::in_file(&path).unwrap();
        ended.forget().unwrap();
        drop(ended);
        let next = ProcessIdentity::in_file(&path).unwrap();
        assert_eq!(next.predecessors, [killed]);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link, file] = ["pipe", "link", "file"].map(|name| folder.path().join(name));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let null = Path::new("/dev/null");
        for irregular in [&*pipe, null] {
            let refused = ProcessIdentity::in_file(irregular).unwrap_err();
            assert!(matches!(refused, IdentityFileError::Irregular), "{refused}");
        }
        for path in [
            &*link,
            folder.path(),
            &file.join("none"),
            Path::new("/dev/full"),
        ] {
            ProcessIdentity::in_file(path).unwrap_err();
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"");
    }

    /// The process that wrote the original may live.
    #[test]
    fn no_identity_of_a_copy_counts() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["identity", "copy"].map(|name| folder.path().join(name));
        let lives = ProcessIdentity::in_file(&path).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let other = ProcessIdentity::in_file(&copy).unwrap();
        assert!(other.predecessors.is_empty());
        assert_eq!(lines(&copy), [&*other.own]);
        // Put back in the place of the file whose lock is held.
        let text = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let third = ProcessIdentity::in_file(&path).unwrap();
        assert!(third.predecessors.is_empty());
        drop((lives, other));
        let fourth = ProcessIdentity::in_file(&copy).unwrap();
        assert_eq!(fourth.predecessors.len(), 1);
    }
}
