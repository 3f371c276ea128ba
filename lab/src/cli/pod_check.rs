//! `outrigger-lab check-pod`.

use std::{path::Path, process::Command};

use clap::Args;
use outrigger_testbed::{
    Error, Passed, Result,
    cli::{PassedSteps, note, print},
    signals::Signals,
};

use crate::{pod, pod_check::PodCheck};

#[derive(Debug, Args)]
pub(super) struct CheckPod {
    #[command(flatten)]
    check: PodCheck,
    /// Where a kubelet cannot run, say why and succeed.
    #[arg(long)]
    or_skip: bool,
    /// Disturb nothing, and keep the cluster with its Pod until Ctrl-C.
    #[arg(long)]
    stay: bool,
    /// Print Pods, Nodes and Services after each step; needs kubectl.
    #[arg(long)]
    show: bool,
}

impl CheckPod {
    pub(super) async fn run(self) -> Result<()> {
        let mut steps = PassedSteps::default();
        let passed = |passed: Passed| {
            steps.note(&passed);
            if self.show {
                show(&passed.kubeconfig);
            }
        };
        let ended = if self.stay {
            pod::stay(&self.check, false, &mut Signals::install()?).await
        } else {
            self.check.run(passed).await
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
        steps.print(false, "the Pod works on a real kubelet")
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
