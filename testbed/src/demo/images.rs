//! Images for the Pods of a demo, built from the source tree that cargo runs it in.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use super::{Error, narrator::say};
use crate::binaries::architecture;

/// Builds images with further arguments of `lab/images/build` and returns their archives, in the order of `names`.
pub(super) async fn build<const N: usize>(
    args: &[&str],
    version: &str,
    names: [&str; N],
) -> Result<[PathBuf; N], Error> {
    let tree = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let tree = Path::new(&tree).join("..");
    let output = tree.join("target/demo-images");
    say(&format!("building the image of {}", names.join(" and ")));
    let mut build = Command::new(tree.join("lab/images/build"));
    build
        .args(args)
        .args(["--version", version, "--output"])
        .arg(&output)
        .args(names)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let failed = || crate::Error::io("run lab/images/build of the source tree");
    let status = build.status().await.map_err(failed())?;
    if !status.success() {
        let reason = io::Error::other(status.to_string());
        return Err(failed()(reason).into());
    }
    let archive = |image| output.join(format!("{image}-{version}-{}.oci.tar", architecture()));
    Ok(names.map(archive))
}
