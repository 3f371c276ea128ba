//! `cargo demo --pod`: controller and provider as a Pod, on a real kubelet.

use std::{process::ExitCode, time::Duration};

use super::{Error, images, interrupted, narrator::say};
use crate::{
    Passed, RealNode,
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
    let names = ["cloud-controller-manager", "provider-mock"];
    let [controller, provider] = tokio::select! {
        images = images::build(&[], "demo", names) => images?,
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
