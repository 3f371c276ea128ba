//! `check-provider` away from the source tree says which program is missing, and what to do.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{fs, path::Path, process::Command};

/// The text of its error where `folder` has the program alone, with these variables and arguments.
fn refused(folder: &Path, variables: &[(&str, &Path)], arguments: &[&str]) -> String {
    let output = Command::new(folder.join("check-provider"))
        .env_clear()
        .env("PATH", folder)
        .envs(variables.iter().copied())
        .args(arguments)
        .args(["--", "provider"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_program_that_is_missing_is_named_with_the_way_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::copy(
        env!("CARGO_BIN_EXE_check-provider"),
        folder.join("check-provider"),
    )
    .unwrap();
    let controller = refused(folder, &[], &[]);
    for part in [
        "cloud-controller-manager is neither in",
        "archives of a release",
    ] {
        assert!(controller.contains(part), "{controller}");
    }
    // From here on it is on the PATH, though it cannot run; neither curl nor Go are.
    fs::write(folder.join("cloud-controller-manager"), "").unwrap();
    let control_plane = refused(folder, &[("HOME", folder)], &[]);
    for part in [
        "kube-apiserver and etcd are missing",
        "cannot run curl",
        "setup-envtest use 1.",
        "KUBEBUILDER_ASSETS",
    ] {
        assert!(control_plane.contains(part), "{control_plane}");
    }
    let named = ["--controller", "/nowhere"];
    let assets = refused(folder, &[("KUBEBUILDER_ASSETS", folder)], &named);
    assert!(assets.contains("but it has no kube-apiserver"), "{assets}");
}
