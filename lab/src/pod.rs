//! `outrigger-lab pod`: controller and provider as a Pod, on a real kubelet.

use outrigger_testbed::{Passed, Result, signals::Signals};

use crate::{
    cli::Show,
    images,
    pod_check::{MOCK, PodCheck},
    real_node::RealNode,
    say,
};

/// Builds the images, deploys the Pod, and stays until a signal unless it is to end then.
pub(crate) async fn run(show: Show) -> Result<()> {
    // First: it fails fast, and a build is long.
    RealNode::possible()?;
    let mut signals = Signals::install()?;
    let names = ["cloud-controller-manager", "provider-mock"];
    let [controller, provider] = tokio::select! {
        images = images::build(&[], "demo", names) => images?,
        () = signals.next() => return Ok(()),
    };
    let check = PodCheck {
        manifest: None,
        controller: vec![controller],
        provider: vec![provider],
        test: None,
        taints: String::new(),
        provider_args: MOCK.map(str::to_owned).into(),
        timeout: show.timeout,
    };
    stay(&check, show.once, &mut signals).await
}

/// Deploys the Pod, and stays until a signal unless it is to end then.
pub(crate) async fn stay(check: &PodCheck, once: bool, signals: &mut Signals) -> Result<()> {
    let passed = |Passed { step, took, .. }| say(&format!("{:>5.1} s  {step}", took.as_secs_f64()));
    let deployed = tokio::select! {
        deployed = check.deploy(passed) => deployed?,
        () = signals.next() => return Ok(()),
    };
    if !once {
        let kubeconfig = deployed.kubeconfig()?;
        say(&format!("\nexport KUBECONFIG={}", kubeconfig.display()));
        say("kubectl get pods,nodes,services --all-namespaces");
        let logs = deployed.logs().display();
        say(&format!("logs are in {logs}; Ctrl-C ends it"));
        signals.next().await;
    }
    Ok(())
}
