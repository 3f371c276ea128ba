//! Finds the programs that the demo starts, and has cargo build what is missing.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use super::Error;
use crate::binaries::{Binaries, of_this_project};

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
pub(super) async fn find(provider: &'static str) -> Result<Programs, Error> {
    // Set by `cargo run` and `cargo test`: the demo is run from its source tree.
    let programs = match env::var_os("CARGO") {
        Some(cargo) => build(&cargo, provider).await?,
        None => Programs {
            controller: of_this_project(CONTROLLER)?,
            provider: of_this_project(provider)?,
        },
    };
    Binaries::find().await?;
    Ok(programs)
}

/// Runs `cargo build` as the demo itself was built. Cargo shows its progress, and knows what is up to date.
async fn build(cargo: &OsStr, provider: &'static str) -> Result<Programs, Error> {
    let demo = env::current_exe().map_err(crate::Error::io("find the running program"))?;
    // The demo is in <target directory>/<profile>.
    let folder = demo.parent().unwrap_or(Path::new("."));
    let profile = folder.file_name().filter(|name| *name != "debug");
    // The whole workspace: crates then have the features that a plain `cargo build` gives them, and need not be compiled again.
    let status = Command::new(cargo)
        .args([
            "build",
            "--workspace",
            "--bin",
            CONTROLLER,
            "--bin",
            provider,
        ])
        .arg("--profile")
        .arg(profile.unwrap_or(OsStr::new("dev")))
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.parent().unwrap_or(folder))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await
        .map_err(crate::Error::io("run `cargo build`"))?;
    if !status.success() {
        return Err(Error::Cargo {
            programs: format!("{CONTROLLER} and {provider}"),
            status,
        });
    }
    Ok(Programs {
        controller: folder.join(CONTROLLER),
        provider: folder.join(provider),
    })
}
