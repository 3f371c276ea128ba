//! Images for the Pods of a cluster, built from the source tree.

use std::{io, path::PathBuf, process::Stdio};

use outrigger_testbed::{Error, Result, binaries::architecture, cli::note, providers::source_tree};
use tokio::process::Command;

/// Builds images with further arguments of `lab/images/build` and returns their archives, in the order of `names`.
pub(crate) async fn build<const N: usize>(
    args: &[&str],
    version: &str,
    names: [&str; N],
) -> Result<[PathBuf; N]> {
    let tree = source_tree()?;
    let output = tree.join("target/demo-images");
    note(&format!("building the image of {}", names.join(" and ")));
    let mut build = Command::new(tree.join("lab/images/build"));
    build
        .args(args)
        .args(["--version", version, "--output"])
        .arg(&output)
        .args(names)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let failed = || Error::io("run lab/images/build of the source tree");
    let status = build.status().await.map_err(failed())?;
    if !status.success() {
        return Err(failed()(io::Error::other(status.to_string())));
    }
    let archive = |image| output.join(format!("{image}-{version}-{}.oci.tar", architecture()));
    Ok(names.map(archive))
}
