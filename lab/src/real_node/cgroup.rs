//! The cgroup of a node's Pods, in every hierarchy of this machine.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use outrigger_testbed::{Error, Result, process::Sweeper};

const ROOT: &str = "/sys/fs/cgroup";

/// Removes the cgroups `$@` with all below them when the pipe closes. Their processes are killed at the
/// same moment and end shortly after, so it tries again.
const SWEEPER: &str = r#"
read -r _
for pause in 0.05 0.2 1 2 4; do
  left=
  for dir in "$@"; do
    [ ! -d "$dir" ] || find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
  done
  [ "$left" ] || exit 0
  sleep "$pause"
done
"#;

/// Dropping it, or the end of this process, removes it.
#[derive(Debug)]
pub(super) struct Cgroup {
    name: String,
    _sweeper: Sweeper,
}

impl Cgroup {
    /// Makes one with the name of `dir`.
    pub(super) fn make(dir: &Path) -> Result<Self> {
        let name = dir.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let refused = |error: io::Error| {
            Error::NoKubelet(format!("no cgroup can be made below {ROOT} ({error})"))
        };
        let hierarchies = hierarchies().map_err(refused)?;
        let dirs: Vec<PathBuf> = hierarchies.iter().map(|dir| dir.join(&name)).collect();
        // Before the first is made. Beside version 1, the kubelet makes one of version 2 as well.
        let beside = Path::new(ROOT).join("unified").join(&name);
        let cgroup = Self {
            name,
            _sweeper: Sweeper::start(SWEEPER, dirs.iter().chain([&beside]))?,
        };
        for (hierarchy, dir) in hierarchies.iter().zip(&dirs) {
            fs::create_dir(dir).map_err(refused)?;
            // A version 1 cpuset is empty until it is set, and takes no process.
            for set in ["cpuset.cpus", "cpuset.mems"] {
                if dir.join(set).is_file() && !hierarchy.join("cgroup.controllers").is_file() {
                    let all = fs::read(hierarchy.join(set)).map_err(refused)?;
                    fs::write(dir.join(set), all).map_err(refused)?;
                }
            }
        }
        Ok(cgroup)
    }

    /// The name for the kubelet's `cgroupRoot`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The roots of version 2, or of each controller of version 1.
fn hierarchies() -> io::Result<Vec<PathBuf>> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").is_file() {
        return Ok(vec![root.to_owned()]);
    }
    let mut hierarchies = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        // A link is another name of a hierarchy, and version 2 beside version 1 has no controllers.
        let is_link = path.symlink_metadata()?.is_symlink();
        if !is_link && path.join("cgroup.clone_children").is_file() {
            hierarchies.push(path);
        }
    }
    if hierarchies.is_empty() {
        return Err(io::Error::other("no hierarchy is mounted"));
    }
    hierarchies.sort();
    Ok(hierarchies)
}
