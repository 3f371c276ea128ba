//! `outrigger-testbed check-pod`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde_json::json;

use super::{duration, note, print};
use crate::{
    Error, Result,
    pod_check::{Passed, PodCheck},
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
    /// An argument of the provider; can be repeated.
    #[arg(
        long = "provider-arg",
        value_name = "ARG",
        allow_hyphen_values = true,
        default_values = ["serve", "--synthesize-instances"]
    )]
    provider_args: Vec<String>,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Where a kubelet cannot run, say why and succeed.
    #[arg(long)]
    or_skip: bool,
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
            provider_args: self.provider_args,
            timeout: self.timeout,
        };
        let mut steps = Vec::new();
        let passed = |Passed { step, took }: Passed| {
            let seconds = took.as_secs_f64();
            note(&format!("passed in {seconds:.1} s: {step}"));
            steps.push(json!({"step": step, "seconds": seconds}));
        };
        match check.run(passed).await {
            Err(error @ Error::NoKubelet(_)) if self.or_skip => {
                return print(&format!("skipped: {error}\n"));
            }
            ended => ended?,
        }
        let passed = steps.len();
        if self.json {
            return print(&format!("{}\n", json!({ "passed": steps })));
        }
        print(&format!(
            "the Pod works on a real kubelet: {passed} steps passed\n"
        ))
    }
}
