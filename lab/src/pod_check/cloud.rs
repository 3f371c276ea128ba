//! A directory of this machine for the provider's fake cloud, which outlives its Pods as a real one does.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use outrigger_testbed::{Error, Result};

/// Where the provider's container has the directory.
pub(super) const MOUNTED_AT: &str = "/cloud";

/// Arguments of `provider-mock` for the check: any Node has an instance, and the cloud is in that directory.
pub(crate) const MOCK: [&str; 5] = [
    "serve",
    "--synthesize-instances",
    "--state=/cloud/state",
    "--state-sync",
    "--journal=/cloud/journal",
];

#[derive(Debug)]
pub(super) struct Cloud {
    dir: PathBuf,
}

impl Cloud {
    /// Makes the directory below `dir`, for a provider of any user on any node.
    pub(super) fn make(dir: &Path) -> Result<Self> {
        let dir = dir.join("cloud");
        let made = fs::create_dir(&dir)
            .and_then(|()| fs::set_permissions(&dir, Permissions::from_mode(0o777)));
        made.map_err(Error::io("make the directory of the cloud"))?;
        Ok(Self { dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// How many lines of the mock's journal name the object with this UID; 0 for a provider without journal.
    pub(super) fn mentions(&self, uid: &str) -> Result<usize> {
        match fs::read_to_string(self.dir.join("journal")) {
            Ok(text) => Ok(text.lines().filter(|line| line.contains(uid)).count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(Error::io("read the journal of the cloud")(error)),
        }
    }
}
