//! The image of the process that holds a Pod's namespaces, made here so that no registry is asked.

use std::{fs, path::Path};

use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::process::Command;

use outrigger_testbed::{Error, Result, binaries::architecture, process::output};

/// The name in the configuration of containerd, and in Pods of upstream's tests.
pub(super) const IMAGE: &str = "registry.k8s.io/pause:3.10.2";

/// The archive, in the directory of the node.
pub(super) const ARCHIVE: &str = "pause.tar";

/// Writes a Docker archive with one layer that has only the program.
pub(super) async fn write(program: &Path, dir: &Path) -> Result<()> {
    let image = dir.join("pause");
    let failed = || Error::io(format!("write the image {}", image.display()));
    fs::create_dir(&image).map_err(failed())?;
    fs::copy(program, image.join("pause")).map_err(failed())?;
    tar(&image, "layer.tar", &["pause"]).await?;
    let layer = fs::read(image.join("layer.tar")).map_err(failed())?;
    let digest = Sha256::digest(&layer);
    let digest: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest.concat())]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
    for (name, text) in [("config.json", config), ("manifest.json", manifest)] {
        fs::write(image.join(name), text.to_string()).map_err(failed())?;
    }
    let members = ["manifest.json", "config.json", "layer.tar"];
    tar(&image, &format!("../{ARCHIVE}"), &members).await
}

async fn tar(dir: &Path, archive: &str, members: &[&str]) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.current_dir(dir)
        .args(["--create", "--owner=0", "--group=0", "--file", archive])
        .args(members);
    let made = output("tar", &mut tar, || format!("make {archive}")).await;
    made.map(drop)
}
