//! Finds the programs that the demo starts, and builds what is missing.

use std::{
    cell::Cell,
    env,
    path::{Path, PathBuf},
    pin::pin,
};

use futures::{FutureExt, try_join};

use super::{Error, narrator::Narrator};
use crate::binaries::{Binaries, beside};

mod cargo;

const CONTROLLER: &str = "cloud-controller-manager";
const MOCK: &str = "provider-mock";

/// The programs of this project.
#[derive(Debug)]
pub(super) struct Programs {
    /// cloud-controller-manager.
    pub(super) controller: PathBuf,
    /// provider-mock.
    pub(super) mock: PathBuf,
}

impl Programs {
    /// The folder in which all of them are.
    pub(super) fn folder(&self) -> &Path {
        self.mock.parent().unwrap_or(Path::new("."))
    }
}

/// Finds the programs of this project and, at the same time, those of a control plane if one
/// is to be run.
pub(super) async fn find(control_plane: bool, narrator: &Narrator) -> Result<Programs, Error> {
    let go_builds = Cell::new(false);
    let go = async {
        if !control_plane {
            return Ok(());
        }
        let mut binaries = pin!(Binaries::find());
        // Programs that are there are found without waiting.
        let programs = if let Some(programs) = binaries.as_mut().now_or_never() {
            programs
        } else {
            go_builds.set(true);
            let built = binaries.await;
            go_builds.set(false);
            built
        };
        Ok(programs.map(drop)?)
    };
    let ((), programs) = try_join!(go, own(narrator, &go_builds))?;
    narrator.clear();
    Ok(programs)
}

async fn own(narrator: &Narrator, go_builds: &Cell<bool>) -> Result<Programs, Error> {
    let demo = env::current_exe().map_err(crate::Error::io("find the running program"))?;
    // Set by `cargo run` and `cargo test`: the demo is run from its source tree.
    if let Some(cargo) = cargo::Cargo::from_env(&demo) {
        return cargo.build(narrator, go_builds).await;
    }
    Ok(Programs {
        controller: beside(CONTROLLER)?,
        mock: beside(MOCK)?,
    })
}
