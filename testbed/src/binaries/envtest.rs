//! Ready-made programs: those that `setup-envtest` has installed, and the archive that is published for it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use sha2::{Digest, Sha512};
use tokio::{process::Command, task};

use super::{Binaries, KUBE_APISERVER, architecture, build::lock, say};
use crate::{Error, Result};

const RELEASES: &str = "https://github.com/kubernetes-sigs/controller-tools/releases/download";

/// Checksums that were read from the index of the releases.
const CHECKSUMS: &str = include_str!("../../control-plane/envtest.txt");

/// A published archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Archive<'a> {
    version: &'a str,
    platform: &'a str,
    sha512: &'a str,
}

/// The newest programs of `minor` (`1.36`) that `setup-envtest` has installed in its default directory.
pub(super) fn installed(minor: &str) -> Option<(String, Binaries)> {
    newest_below(&store()?, minor, &platform())
}

/// The directory of `setup-envtest`, as that command finds it.
fn store() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let data = match set("XDG_DATA_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(&set("HOME")?).join(".local/share"),
    };
    Some(data.join("kubebuilder-envtest/k8s"))
}

fn newest_below(store: &Path, minor: &str, platform: &str) -> Option<(String, Binaries)> {
    let versions = fs::read_dir(store).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_suffix(platform)?.strip_suffix('-')?;
        let patch = patch(version, minor)?;
        let binaries = Binaries::in_dir(&entry.path()).ok()?;
        Some((patch, version.to_owned(), binaries))
    });
    let (_, version, binaries) = versions.max_by_key(|(patch, ..)| *patch)?;
    Some((version, binaries))
}

/// The programs of the published archive for `minor`, downloaded once into the directory of `setup-envtest`, or the
/// reason why there are none: a sentence without its end.
///
/// # Errors
/// Only if the directory cannot be written.
pub(super) async fn downloaded(minor: &str) -> Result<Result<Binaries, String>> {
    let platform = platform();
    let Some(archive) = newest(CHECKSUMS, minor, &platform) else {
        return Ok(Err(format!(
            "no archive with kube-apiserver and etcd {minor} for {platform} is pinned in envtest.txt"
        )));
    };
    let Some(store) = store() else {
        return Ok(Err("neither XDG_DATA_HOME nor HOME is set".to_owned()));
    };
    download(&archive, RELEASES, &store).await
}

/// Downloads an archive into a folder of its own below `store`.
async fn download(
    archive: &Archive<'_>,
    releases: &str,
    store: &Path,
) -> Result<Result<Binaries, String>> {
    let Archive {
        version,
        platform,
        sha512,
    } = archive;
    let failed = |action| Error::io(format!("{action} {}", store.display()));
    fs::create_dir_all(store).map_err(failed("make"))?;
    let _lock = lock("the archive of envtest", store.join("outrigger.lock")).await?;
    let dir = store.join(format!("{version}-{platform}"));
    if let Ok(binaries) = Binaries::in_dir(&dir) {
        return Ok(Ok(binaries));
    }
    let scratch = tempfile::tempdir_in(store).map_err(failed("make a directory in"))?;
    let file = scratch.path().join("archive.tar.gz");
    let url = format!("{releases}/envtest-v{version}/envtest-v{version}-{platform}.tar.gz");
    say(&format!(
        "downloading kube-apiserver and etcd v{version} into {}, once: {url}",
        dir.display()
    ));
    if let Err(reason) = fetch(&url, &file).await {
        return Ok(Err(reason));
    }
    let read = file.clone();
    let digest = task::spawn_blocking(move || digest(&read)).await;
    let digest_of_file = digest.map_err(io::Error::other).flatten();
    let digest_of_file = digest_of_file.map_err(failed("read the archive in"))?;
    if digest_of_file != *sha512 {
        return Ok(Err(format!(
            "the archive {url} has another SHA-512 than the pinned one and is not used: {digest_of_file}"
        )));
    }
    let unpacked = scratch.path().join("programs");
    fs::create_dir(&unpacked).map_err(failed("make a directory in"))?;
    if let Err(reason) = unpack(&file, &unpacked).await {
        return Ok(Err(format!(
            "the archive {url} cannot be unpacked: {reason}"
        )));
    }
    // A directory that has both is complete.
    fs::rename(&unpacked, &dir).map_err(Error::io(format!("rename to {}", dir.display())))?;
    Ok(Ok(Binaries::in_dir(&dir)?))
}

/// curl knows the proxies and authorities of this machine, and follows the redirect to the store of releases.
async fn fetch(url: &str, file: &Path) -> Result<(), String> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error"])
        // A server on this machine, as in tests, is not behind a proxy.
        .args(["--noproxy", "127.0.0.1", "--connect-timeout", "3"])
        // It ends when it is slower than that for 10 s.
        .args(["--speed-limit", "100000", "--speed-time", "10"])
        .arg("--output")
        .arg(file)
        .arg(url);
    run("curl", curl).await
}

async fn unpack(archive: &Path, into: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.arg("--extract")
        .arg("--gzip")
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(into)
        // The archive has them in controller-tools/envtest.
        .args(["--strip-components=2", "--no-same-owner"]);
    run("tar", tar).await
}

async fn run(program: &str, mut command: Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("cannot run {program} ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it said nothing");
    Err(format!("{program} failed ({last})"))
}

fn digest(path: &Path) -> io::Result<String> {
    let digest = Sha512::digest(fs::read(path)?);
    let digest: Vec<_> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digest.concat())
}

fn newest<'a>(checksums: &'a str, minor: &str, platform: &str) -> Option<Archive<'a>> {
    let lines = checksums.lines().filter(|line| !line.starts_with('#'));
    let archives = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let archive = Archive {
            version: words.next()?,
            platform: words.next()?,
            sha512: words.next()?,
        };
        Some((patch(archive.version, minor)?, archive))
    });
    let archives = archives.filter(|(_, archive)| archive.platform == platform);
    Some(archives.max_by_key(|(patch, _)| *patch)?.1)
}

/// The last number of `version`, if it is a release of `minor`.
fn patch(version: &str, minor: &str) -> Option<u32> {
    version.strip_prefix(minor)?.strip_prefix('.')?.parse().ok()
}

/// The platform in Go's words.
fn platform() -> String {
    format!("{}-{}", env::consts::OS, architecture())
}

/// `1.36` of the kube-apiserver that would be built.
pub(super) fn minor() -> &'static str {
    let version = KUBE_APISERVER.version().trim_start_matches('v');
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

#[cfg(test)]
mod tests;
