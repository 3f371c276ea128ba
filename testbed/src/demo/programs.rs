//! Finds the programs that the demo starts, and builds what is missing.

use std::{
    env,
    path::{Path, PathBuf},
};

use super::{Error, narrator::Narrator};
use crate::binaries::{Binaries, of_this_project};

mod cargo;

const CONTROLLER: &str = "cloud-controller-manager";
pub(super) const MOCK: &str = "provider-mock";

/// The programs of this project.
#[derive(Debug)]
pub(super) struct Programs {
    /// cloud-controller-manager.
    pub(super) controller: PathBuf,
    /// The provider.
    pub(super) provider: PathBuf,
}

impl Programs {
    /// The folder in which both are.
    pub(super) fn folder(&self) -> &Path {
        self.provider.parent().unwrap_or(Path::new("."))
    }
}

/// Finds the controller and a provider of this project, and the programs of the control plane.
pub(super) async fn find(provider: &'static str, narrator: &Narrator) -> Result<Programs, Error> {
    let demo = env::current_exe().map_err(crate::Error::io("find the running program"))?;
    // Set by `cargo run` and `cargo test`: the demo is run from its source tree.
    let programs = match cargo::Cargo::from_env(&demo) {
        Some(cargo) => cargo.build(provider, narrator).await?,
        None => Programs {
            controller: of_this_project(CONTROLLER)?,
            provider: of_this_project(provider)?,
        },
    };
    Binaries::find().await?;
    Ok(programs)
}
