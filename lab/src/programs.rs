//! The programs of the product and of the lab, built as this one was.

use std::{env, io, path::Path, process::Stdio};

use outrigger_testbed::{Error, Result, providers::source_tree};
use tokio::process::Command;

/// Builds the controller, the mock and provider-linux beside this program, if cargo runs it: else they are there.
pub(crate) async fn build() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else {
        return Ok(());
    };
    let failed = || Error::io("build the controller and its providers with cargo");
    // This program lies in <target folder>/<profile>.
    let this = env::current_exe().map_err(failed())?;
    let folder = this.parent().unwrap_or(Path::new("."));
    let is_debug = folder.ends_with("debug");
    let tree = source_tree()?;
    let product: &[&str] = &["--bin=cloud-controller-manager", "--bin=provider-mock"];
    for (workspace, programs) in [
        (tree.clone(), product),
        (tree.join("lab"), &["--bin=provider-linux"]),
    ] {
        let mut build = Command::new(&cargo);
        // The whole workspace: crates then have the features of a plain build.
        build
            .args(["build", "--quiet", "--workspace", "--profile"])
            .arg(if is_debug { "dev" } else { "release" })
            .args(programs)
            .arg("--target-dir")
            .arg(folder.parent().unwrap_or(Path::new(".")))
            .current_dir(workspace)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let status = build.status().await.map_err(failed())?;
        if !status.success() {
            return Err(failed()(io::Error::other(status.to_string())));
        }
    }
    Ok(())
}
