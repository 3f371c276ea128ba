//! Where kube-apiserver and etcd come from.
//!
//! In this order, with a line on standard error for each that is tried:
//!
//! 1. `KUBEBUILDER_ASSETS`, a directory with ready-made binaries, as for every project that uses envtest;
//! 2. those that were built with Go before;
//! 3. those that `setup-envtest` has installed in its default directory;
//! 4. the archive that is published for envtest, by its checksum in `control-plane/envtest.txt`, unpacked into that
//!    directory;
//! 5. for a program in cargo's target directory, a build with Go, from the modules in `control-plane/`, whose `go.mod`
//!    files are the only place where the versions stand. An archive has their minor version.

mod build;
mod envtest;

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Once,
};

use crate::{Error, Result};

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// etcd.
    pub etcd: PathBuf,
}

impl Binaries {
    /// Finds the programs; if there are none, downloads or builds them first.
    ///
    /// A first build lasts minutes and shows its progress on standard error. Several
    /// processes may call this at once: one builds, the others wait for it.
    pub async fn find() -> Result<Self> {
        // One line is enough for a process that starts many control planes.
        static SAID: Once = Once::new();
        let use_these = |origin: &str| {
            SAID.call_once(|| say(&format!("kube-apiserver and etcd are those {origin}")));
        };
        if let Some(dir) = env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
            let dir = Path::new(&dir);
            let binaries = Self::in_dir(dir)?;
            use_these(&format!("of KUBEBUILDER_ASSETS, {}", dir.display()));
            return Ok(binaries);
        }
        let target = target_dir().ok();
        let built = |program| build::built(program, target.as_deref()?);
        if let (Some(kube_apiserver), Some(etcd)) = (built(&KUBE_APISERVER), built(&ETCD)) {
            return Ok(Self {
                kube_apiserver,
                etcd,
            });
        }
        let minor = envtest::minor();
        if let Some((version, binaries)) = envtest::installed(minor) {
            use_these(&format!("that setup-envtest has installed, v{version}"));
            return Ok(binaries);
        }
        let reason = match envtest::downloaded(minor).await? {
            Ok(binaries) => return Ok(binaries),
            Err(reason) => reason,
        };
        let Some(target) = target else {
            return Err(Error::NoControlPlane { reason, minor });
        };
        say(&format!("{reason}; building with Go instead"));
        Ok(Self {
            etcd: build::build(&ETCD, &target).await?,
            kube_apiserver: build::build(&KUBE_APISERVER, &target).await?,
        })
    }

    fn in_dir(dir: &Path) -> Result<Self> {
        let find = |program: &'static str| {
            let path = dir.join(program);
            if path.is_file() {
                Ok(path)
            } else {
                Err(Error::MissingAsset {
                    program,
                    dir: dir.to_owned(),
                })
            }
        };
        Ok(Self {
            kube_apiserver: find("kube-apiserver")?,
            etcd: find("etcd")?,
        })
    }
}

/// A program and the Go module that pins it.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The package that is built.
    pub package: &'static str,
    /// The text of `main.go`, if the package is the module itself.
    pub main_go: Option<&'static str>,
    /// The requirement in `go.mod` whose version is the program's.
    pub module: &'static str,
    /// The text of `go.mod`.
    pub go_mod: &'static str,
    /// The text of `go.sum`.
    pub go_sum: &'static str,
    /// Where the version is stamped in, if it has such a place.
    pub version_package: Option<&'static str>,
    /// The way without Go, as the end of a sentence.
    pub without_go: &'static str,
}

const READY_MADE: &str = ", or set KUBEBUILDER_ASSETS to a directory with kube-apiserver and etcd";

// The module files are compiled in, so that the testbed works without its source tree.
const KUBE_APISERVER: Program = Program {
    name: "kube-apiserver",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    main_go: None,
    module: "k8s.io/kubernetes",
    go_mod: include_str!("../control-plane/kubernetes/go.mod"),
    go_sum: include_str!("../control-plane/kubernetes/go.sum"),
    version_package: Some("k8s.io/component-base/version"),
    without_go: READY_MADE,
};

const ETCD: Program = Program {
    name: "etcd",
    package: "go.etcd.io/etcd/server/v3",
    main_go: None,
    module: "go.etcd.io/etcd/server/v3",
    go_mod: include_str!("../control-plane/etcd/go.mod"),
    go_sum: include_str!("../control-plane/etcd/go.sum"),
    version_package: None,
    without_go: READY_MADE,
};

impl Program {
    /// Finds the program in cargo's target directory, building it first if that has not been done.
    pub async fn find(&'static self) -> Result<PathBuf> {
        build::build(self, &target_dir()?).await
    }

    /// The required version, with its `v`.
    fn version(&self) -> &'static str {
        self.directive(self.module).unwrap_or("v0.0.0")
    }

    /// The oldest Go that `go.mod` allows.
    fn go(&self) -> &'static str {
        self.directive("go").unwrap_or("1.26")
    }

    fn directive(&self, key: &str) -> Option<&'static str> {
        self.go_mod.lines().find_map(|line| {
            let line = line.trim();
            let line = line.strip_prefix("require ").unwrap_or(line);
            line.strip_prefix(key)?.strip_prefix(' ')?.split(' ').next()
        })
    }

    fn ldflags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        if let Some(package) = self.version_package {
            let version = self.version();
            let mut numbers = version.trim_start_matches('v').split('.');
            for (name, value) in [
                ("gitVersion", version),
                ("gitMajor", numbers.next().unwrap_or_default()),
                ("gitMinor", numbers.next().unwrap_or_default()),
                ("gitTreeState", "clean"),
                // Instead of the placeholder that only an archive made by git replaces.
                ("gitCommit", ""),
            ] {
                flags.extend([" -X ", package, ".", name, "=", value]);
            }
        }
        flags
    }
}

/// A program of this project: beside the one that runs, else on the PATH.
pub fn of_this_project(program: &'static str) -> Result<PathBuf> {
    let this = env::current_exe().map_err(Error::io("find the running program"))?;
    let folder = this.parent().unwrap_or(Path::new("."));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
    let mut programs = folders.map(|folder| folder.join(program));
    programs
        .find(|path| path.is_file())
        .ok_or_else(|| Error::NoProgram {
            program,
            dir: folder.to_owned(),
        })
}

/// Cargo's target directory: the environment's, else the one that the running
/// program lies in. Cargo marks it with `CACHEDIR.TAG` if it made the directory itself, and keeps
/// `.rustc_info.json` there in any case.
fn target_dir() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        return std::path::absolute(dir).map_err(Error::io("resolve CARGO_TARGET_DIR"));
    }
    let program = env::current_exe().map_err(Error::io("find the running program"))?;
    program
        .ancestors()
        .find(|dir| is_target_dir(dir))
        .map(Path::to_owned)
        .ok_or_else(|| {
            let hint = io::Error::other("set CARGO_TARGET_DIR");
            Error::io("find cargo's target directory to build in")(hint)
        })
}

fn is_target_dir(dir: &Path) -> bool {
    [".rustc_info.json", "CACHEDIR.TAG"]
        .iter()
        .any(|mark| dir.join(mark).is_file())
}

/// This machine's architecture, as Go and images name it.
pub fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Not `eprintln`: the test harness would hide it just when a test seems to hang.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_directory_that_cargo_did_not_make_is_found_too() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_target_dir(dir.path()));
        std::fs::write(dir.path().join(".rustc_info.json"), "{}").unwrap();
        assert!(is_target_dir(dir.path()));
    }

    #[test]
    fn versions_come_from_go_mod() {
        assert_eq!(KUBE_APISERVER.version(), "v1.36.3");
        assert_eq!(ETCD.version(), "v3.7.3");
        assert_eq!(KUBE_APISERVER.go(), "1.26.0");
        assert_eq!(ETCD.ldflags(), "-s -w");
        assert!(KUBE_APISERVER.ldflags().contains("version.gitMinor=36 "));
    }

    #[test]
    fn an_assets_directory_without_a_program_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Binaries::in_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("has no kube-apiserver"), "{error}");
        for program in ["etcd", "kube-apiserver"] {
            std::fs::write(dir.path().join(program), "").unwrap();
        }
        assert!(Binaries::in_dir(dir.path()).is_ok());
    }
}
