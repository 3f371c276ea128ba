//! `outrigger-lab check-pod`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use clap::Args;
use outrigger_testbed::{
    Error, Passed, Result,
    cli::{PassedSteps, duration, note, print},
    signals::Signals,
};

use crate::{
    pod,
    pod_check::{MOCK, PodCheck},
};

#[derive(Debug, Args)]
pub(super) struct CheckPod {
    /// Objects to apply instead of those of deploy/kustomize, such as the output of `helm template`. The Deployment gets one
    /// replica on the node's network.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Archive of the controller's image; given twice, the Pod is upgraded to the second and rolled back.
    #[arg(long, value_name = "ARCHIVE", required = true)]
    controller_image: Vec<PathBuf>,
    /// Archive of the provider's image, likewise. Its cloud must have an instance for any name.
    #[arg(long, value_name = "ARCHIVE", required = true)]
    provider_image: Vec<PathBuf>,
    /// Archive of an image with curl, for the Pods of `helm test` that the manifest has; without it they are left out.
    #[arg(long, value_name = "ARCHIVE", requires = "manifest")]
    test_image: Option<PathBuf>,
    /// An argument of the provider; can be repeated. It may write to /cloud, which outlives the Pod.
    #[arg(
        long = "provider-arg",
        value_name = "ARG",
        allow_hyphen_values = true,
        default_values = MOCK
    )]
    provider_args: Vec<String>,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Where a kubelet cannot run, say why and succeed.
    #[arg(long)]
    or_skip: bool,
    /// Disturb nothing, and keep the cluster with its Pod until Ctrl-C.
    #[arg(long)]
    stay: bool,
    #[command(flatten)]
    report: Report,
}

#[derive(Debug, Args)]
struct Report {
    /// Print Pods, Nodes and Services after each step; needs kubectl.
    #[arg(long, conflicts_with = "json")]
    show: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CheckPod {
    pub(super) async fn run(self) -> Result<()> {
        let check = PodCheck {
            manifest: self.manifest,
            controller: self.controller_image,
            provider: self.provider_image,
            test: self.test_image,
            provider_args: self.provider_args,
            timeout: self.timeout,
        };
        let mut steps = PassedSteps::default();
        let passed = |passed: Passed| {
            steps.note(&passed);
            if self.report.show {
                show(&passed.kubeconfig);
            }
        };
        let ended = if self.stay {
            pod::stay(&check, false, &mut Signals::install()?).await
        } else {
            check.run(passed).await
        };
        match ended {
            Err(error @ Error::NoKubelet(_)) if self.or_skip => {
                return print(&format!("skipped: {error}\n"));
            }
            ended => ended?,
        }
        if self.stay {
            return Ok(());
        }
        steps.print(self.report.json, "the Pod works on a real kubelet")
    }
}

/// The check goes on if this fails.
fn show(kubeconfig: &Path) {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig);
    kubectl.args(["get", "pods,nodes,services", "--all-namespaces"]);
    if let Err(error) = kubectl.status() {
        note(&format!("kubectl cannot be run: {error}"));
    }
}
