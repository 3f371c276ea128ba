//! The state file: the content of the cloud, over restarts and kills.
//!
//! It is replaced, never changed: whoever reads it, at any moment, reads one whole state.

mod keeper;
mod load_balancers;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cloud::Holdings;
use crate::instances::{Instance, Inventory, NodeName, ProviderName};
use crate::routes::{Route, RouteTable};
use crate::volumes::Volume;
use load_balancers::{Saved, TargetLists};

pub use keeper::Keeper;

/// The mark of the file's format and version.
const FORMAT: &str = "outrigger-mock-state/1";

/// Mode of the file, whatever the umask: it names every machine of the cloud.
const OWNER_ONLY: u32 = 0o600;

/// A state file.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
    provider_name: ProviderName,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    format: &'static str,
    provider_name: &'a ProviderName,
    instances: Vec<&'a Instance>,
    deleted: &'a BTreeMap<NodeName, u32>,
    load_balancers: Vec<Saved>,
    target_lists: TargetLists,
    routes: Vec<&'a Route>,
    volumes: Vec<&'a Volume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Read {
    format: String,
    provider_name: ProviderName,
    instances: Vec<Instance>,
    #[serde(default)]
    deleted: BTreeMap<NodeName, u32>,
    #[serde(default)]
    load_balancers: Vec<Saved>,
    #[serde(default)]
    target_lists: TargetLists,
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    volumes: Vec<Volume>,
}

impl StateFile {
    /// The file at this path, for this provider.
    pub fn new(path: PathBuf, provider_name: ProviderName) -> Self {
        Self {
            path,
            provider_name,
        }
    }

    /// Reads it; none: there is no file yet.
    ///
    /// # Errors
    ///
    /// It cannot be read, is damaged, or is of another provider. The file is as it was.
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
        let (owner, own) = (&state.provider_name, &self.provider_name);
        ensure!(
            owner == own,
            "the state file {path} is of the provider {owner}, not of {own}; set --provider-name \
             {owner}, or another --state"
        );
        let instances = Inventory::restore(state.instances, state.deleted);
        let load_balancers = load_balancers::restore(state.load_balancers, &state.target_lists);
        Ok(Some(Holdings {
            instances: instances.map_err(|refused| self.damaged(&refused))?,
            load_balancers: load_balancers.map_err(|reason| self.damaged(&reason))?,
            routes: RouteTable::restore(state.routes).map_err(|refused| self.damaged(&refused))?,
            volumes: restore_volumes(state.volumes).map_err(|reason| self.damaged(&reason))?,
        }))
    }

    /// Replaces it. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// It cannot be written; the file is as it was.
    pub fn write(&self, holdings: &Holdings) -> anyhow::Result<()> {
        let inventory = &holdings.instances;
        let (load_balancers, target_lists) = load_balancers::save(&holdings.load_balancers);
        let state = Written {
            format: FORMAT,
            provider_name: &self.provider_name,
            instances: inventory.iter().map(AsRef::as_ref).collect(),
            deleted: inventory.deleted(),
            load_balancers,
            target_lists,
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

fn restore_volumes(saved: Vec<Volume>) -> Result<BTreeMap<String, Volume>, String> {
    let mut volumes = BTreeMap::new();
    for volume in saved {
        if let Some(twin) = volumes.insert(volume.handle.clone(), volume) {
            return Err(format!("there are two volumes {}", twin.handle));
        }
    }
    Ok(volumes)
}

#[cfg(test)]
mod tests;
