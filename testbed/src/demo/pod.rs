//! `cargo demo --pod`: controller and provider as a Pod, on a real kubelet.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};

use tokio::process::Command;

use super::{Error, interrupted};
use crate::{
    Passed, RealNode,
    binaries::architecture,
    pod_check::{MOCK, PodCheck},
    signals::Signals,
};

/// Builds the images, deploys the Pod, and stays until a signal unless `once` is set.
pub(super) async fn run(
    once: bool,
    timeout: Duration,
    signals: &mut Signals,
) -> Result<ExitCode, Error> {
    // First: it fails fast, and a build is long.
    RealNode::possible()?;
    let (controller, provider) = tokio::select! {
        images = images() => images?,
        () = signals.next() => return Ok(interrupted()),
    };
    let check = PodCheck {
        manifest: None,
        controller: vec![controller],
        provider: vec![provider],
        test: None,
        provider_args: MOCK.map(str::to_owned).into(),
        timeout,
    };
    let passed = |Passed { step, took, .. }| say(&format!("{:>5.1} s  {step}", took.as_secs_f64()));
    let deployed = tokio::select! {
        deployed = check.deploy(passed) => deployed?,
        () = signals.next() => return Ok(interrupted()),
    };
    if !once {
        let kubeconfig = deployed.kubeconfig()?;
        say(&format!("\nexport KUBECONFIG={}", kubeconfig.display()));
        say("kubectl get pods,nodes,services --all-namespaces");
        let logs = deployed.logs().display();
        say(&format!("logs are in {logs}; Ctrl-C ends it"));
        signals.next().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Archives of the two images, built from the source tree that cargo runs the demo in.
async fn images() -> Result<(PathBuf, PathBuf), Error> {
    const IMAGES: [&str; 2] = ["cloud-controller-manager", "provider-mock"];
    let tree = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let tree = Path::new(&tree).join("..");
    let output = tree.join("target/demo-images");
    say("building the images of controller and mock");
    let mut build = Command::new(tree.join("deploy/images/build"));
    build
        .args(["--profile", "dev", "--version", "demo", "--output"])
        .arg(&output)
        .args(IMAGES)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let failed = || crate::Error::io("run deploy/images/build of the source tree");
    let status = build.status().await.map_err(failed())?;
    if !status.success() {
        let reason = io::Error::other(status.to_string());
        return Err(failed()(reason).into());
    }
    let archive = |image| output.join(format!("{image}-demo-{}.oci.tar", architecture()));
    Ok((archive(IMAGES[0]), archive(IMAGES[1])))
}

/// Errors of writing are ignored: no reader is left then.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
