//! The state file: the content of the cloud, over restarts and kills.
//!
//! It is replaced, never changed: whoever reads it, at any moment, reads one whole state.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cloud::{Cloud, Holdings};
use crate::instances::{Instance, Inventory, NodeName};
use crate::load_balancers::{LoadBalancer, LoadBalancerInventory};
use crate::routes::{Route, RouteTable};
use crate::volumes::Volume;

/// The mark of the file's format and version.
const FORMAT: &str = "outrigger-mock-state/1";

/// Mode of the file, whatever the umask: it names every machine of the cloud.
const OWNER_ONLY: u32 = 0o600;

/// A state file.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    format: &'static str,
    instances: Vec<&'a Instance>,
    deleted: &'a BTreeMap<NodeName, u32>,
    load_balancers: Vec<&'a LoadBalancer>,
    routes: Vec<&'a Route>,
    volumes: Vec<&'a Volume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Read {
    format: String,
    instances: Vec<Instance>,
    deleted: BTreeMap<NodeName, u32>,
    load_balancers: Vec<LoadBalancer>,
    routes: Vec<Route>,
    volumes: Vec<Volume>,
}

impl StateFile {
    /// The file at this path.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads it; none: there is no file yet.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged. The file is as it was.
    pub fn read(&self) -> anyhow::Result<Option<Holdings>> {
        let path = self.path.display();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                bail!("cannot read the state file {path}: {error}");
            }
            Err(error) => return Err(self.damaged(&error)),
        };
        let state: Read = serde_json::from_str(&text).map_err(|error| self.damaged(&error))?;
        if state.format != FORMAT {
            let reason = format!("its format is {:?}, not {FORMAT:?}", state.format);
            return Err(self.damaged(&reason));
        }
        let volumes = state.volumes.into_iter();
        let instances = Inventory::restore(state.instances, state.deleted);
        let load_balancers = LoadBalancerInventory::restore(state.load_balancers);
        Ok(Some(Holdings {
            instances: instances.map_err(|refused| self.damaged(&refused))?,
            load_balancers: load_balancers.map_err(|refused| self.damaged(&refused))?,
            routes: RouteTable::restore(state.routes).map_err(|refused| self.damaged(&refused))?,
            volumes: volumes.map(|one| (one.handle.clone(), one)).collect(),
        }))
    }

    /// Replaces it. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// It cannot be written; the file is as it was.
    pub fn write(&self, holdings: &Holdings) -> anyhow::Result<()> {
        let inventory = &holdings.instances;
        let state = Written {
            format: FORMAT,
            instances: inventory.iter().map(AsRef::as_ref).collect(),
            deleted: inventory.deleted(),
            load_balancers: holdings.load_balancers.iter().map(AsRef::as_ref).collect(),
            routes: holdings.routes.iter().map(AsRef::as_ref).collect(),
            volumes: holdings.volumes.values().collect(),
        };
        let path = self.path.display();
        let replaced = self.replace(&state);
        replaced.map_err(|error| anyhow!("cannot write the state file {path}: {error}"))
    }

    fn replace(&self, state: &Written<'_>) -> io::Result<()> {
        let name = self.path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // One fixed name: what a kill leaves behind is overwritten by the next write.
        let temporary = directory.join(format!(".{}.tmp", name.to_string_lossy()));
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(OWNER_ONLY)
            .open(&temporary)?;
        // A stale file of a version that did not ask has other permissions.
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, state)?;
        file.write_all(b"\n")?;
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The rename itself must reach the disk too.
        File::open(directory)?.sync_all()
    }

    fn damaged(&self, reason: &dyn fmt::Display) -> anyhow::Error {
        anyhow!(
            "the state file {} is damaged: {reason}; it was left as it is. Repair it, or move it away \
             to start with a new cloud",
            self.path.display()
        )
    }
}

/// How long a failed write waits before the next.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps a state file in sync with a cloud.
///
/// Changes are gathered: the file is written at most once per interval, however many there are, so
/// a kill loses at most the changes of the last interval.
#[derive(Debug)]
pub struct Keeper {
    file: StateFile,
    cloud: Cloud,
    interval: Duration,
    /// From before the first write: what changes in between is written again.
    changes: watch::Receiver<u64>,
}

impl Keeper {
    /// Keeps `file` in sync with `cloud`.
    pub fn new(file: StateFile, cloud: Cloud, interval: Duration) -> Self {
        let changes = cloud.changes();
        Self {
            file,
            cloud,
            interval,
            changes,
        }
    }

    /// Runs until `stop`, then writes what is left. Fails only if that last write does.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut changes = self.changes.clone();
        let mut pause = self.interval;
        loop {
            let more = tokio::select! {
                next = changes.changed() => next.is_ok(),
                () = stop.cancelled() => false,
            };
            if !more {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {
                    changes.mark_changed();
                    break;
                }
            }
            changes.mark_unchanged();
            pause = match self.write().await {
                Ok(()) => self.interval,
                Err(error) => {
                    tracing::error!(%error, "the state is not saved; trying again");
                    changes.mark_changed();
                    RETRY
                }
            };
        }
        if changes.has_changed().unwrap_or(false) {
            self.write().await
        } else {
            Ok(())
        }
    }

    /// Writes the state as it is now.
    pub async fn write(&self) -> anyhow::Result<()> {
        // Read before what it counts: what changes in between is written too, and counted next time.
        let changes = *self.changes.borrow();
        let (file, holdings) = (self.file.clone(), self.cloud.holdings());
        let written = tokio::task::spawn_blocking(move || file.write(&holdings)).await;
        let written = written.unwrap_or_else(|failed| Err(failed.into()));
        if written.is_ok() {
            self.cloud.saved(changes);
        }
        written
    }
}

#[cfg(test)]
mod tests;
