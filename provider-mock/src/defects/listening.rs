//! Mistakes about the socket and the end of the process.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The manner in which a defective provider listens and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Listening {
    /// The socket appears when the provider serves.
    #[default]
    InOrder,
    /// With this mode of the socket.
    Mode(u32),
    /// A socket that is there already is taken for that of a process that lives.
    KeepsStale,
    /// A socket that is there already is taken for that of a process that has ended.
    TakesLive,
    /// After SIGTERM the socket is left.
    LeavesSocket,
    /// After SIGTERM it ends with an error.
    Fails,
}

impl Listening {
    /// By the word of a row.
    pub(super) fn named(word: &str) -> Option<Self> {
        match word {
            "mode" => Some(Self::Mode(0o755)),
            "keeps-stale" => Some(Self::KeepsStale),
            "takes-live" => Some(Self::TakesLive),
            "leaves" => Some(Self::LeavesSocket),
            "fails" => Some(Self::Fails),
            _ => None,
        }
    }

    /// Before the socket is made.
    pub(super) fn begins(self, socket: &Path) -> io::Result<()> {
        if self == Self::KeepsStale && socket.exists() {
            std::fs::remove_file(socket)?;
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if self == Self::TakesLive && socket.exists() {
            std::fs::remove_file(socket)?;
            std::fs::remove_file(format!("{}.ctl", socket.display()))?;
        }
        Ok(())
    }

    /// Once it is made.
    pub(super) fn made(self, socket: &Path) -> io::Result<()> {
        match self {
            Self::Mode(mode) => std::fs::set_permissions(socket, Permissions::from_mode(mode)),
            _ => Ok(()),
        }
    }

    /// After the last call.
    pub(super) fn ended(self, socket: &Path) -> io::Result<()> {
        match self {
            // Dropped, it leaves its file.
            Self::LeavesSocket => std::os::unix::net::UnixListener::bind(socket).map(drop),
            Self::Fails => Err(io::Error::other("terminated")),
            _ => Ok(()),
        }
    }
}
