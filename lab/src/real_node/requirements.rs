//! Checks whether this machine can run a kubelet.

use std::{
    env,
    net::{IpAddr, UdpSocket},
    path::PathBuf,
    process::{Command, Stdio},
};

use outrigger_testbed::{Error, Result};

/// The package with the CNI plugins.
const PLUGINS: &str = "containernetworking-plugins";

/// Programs and facts of this machine that a kubelet needs.
#[derive(Debug)]
pub(crate) struct Requirements {
    pub(super) containerd: PathBuf,
    pub(super) ctr: PathBuf,
    pub(super) unshare: PathBuf,
    pub(super) cni: PathBuf,
}

impl Requirements {
    /// The error is a sentence that says what is missing and how to get it.
    pub(crate) fn check() -> Result<Self> {
        let refuse = |reason: String| Err(Error::NoKubelet(reason));
        if !rustix::process::geteuid().is_root() {
            return refuse("it needs root, for cgroups and mounts: run this with sudo".to_owned());
        }
        let path = search_path();
        let containerd = find("containerd", &path, "containerd")?;
        let ctr = find("ctr", &path, "containerd")?;
        find("runc", &path, "runc")?;
        let unshare = find("unshare", &path, "util-linux")?;
        let folders = ["/usr/lib/cni", "/opt/cni/bin"].map(PathBuf::from);
        let cni = find("loopback", &folders, PLUGINS)?.with_file_name("");
        let mut namespaces = Command::new(&unshare);
        namespaces
            .args(["--fork", "--pid", "--mount-proc", "--mount", "/bin/true"])
            .stdin(Stdio::null());
        match namespaces.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                return refuse(format!("no namespaces can be made ({})", said.trim()));
            }
            Err(error) => return refuse(format!("unshare cannot run ({error})")),
        }
        Ok(Self {
            containerd,
            ctr,
            unshare,
            cni,
        })
    }

    /// Checks what a machine in a network namespace needs besides, and returns the path of nsenter.
    pub(crate) fn namespaced(&self) -> Result<PathBuf> {
        let (path, cni) = (search_path(), [self.cni.clone()]);
        for plugin in ["bridge", "host-local"] {
            find(plugin, &cni, PLUGINS)?;
        }
        find("nft", &path, "nftables")?;
        find("nsenter", &path, "util-linux")
    }
}

/// The address that a Node in this machine's own network has.
pub(super) fn address() -> Result<IpAddr> {
    let none = || Error::NoKubelet("this machine has no address but loopback".to_owned());
    outgoing_address().ok_or_else(none)
}

/// The path of a program, or a sentence with the package of Debian that has it.
fn find(program: &str, folders: &[PathBuf], package: &str) -> Result<PathBuf> {
    program_in(program, folders).ok_or_else(|| {
        Error::NoKubelet(format!(
            "there is no {program}; install the package {package}"
        ))
    })
}

/// `PATH`, and where Debian has runc.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    env::split_paths(&path).chain(folders).collect()
}

fn program_in(program: &str, path: &[PathBuf]) -> Option<PathBuf> {
    let mut paths = path.iter().map(|dir| dir.join(program));
    paths.find(|path| path.is_file())
}

/// The address that packets to other machines come from. Nothing is sent.
fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address of documentation: it is routed as any other.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_in_each_directory() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = [empty.path().to_owned(), full.path().to_owned()];
        assert_eq!(program_in("runc", &path), None);
        std::fs::write(full.path().join("runc"), "").unwrap();
        assert_eq!(program_in("runc", &path), Some(full.path().join("runc")));
    }
}
