//! kube-controller-manager and kube-scheduler of a control plane that runs Pods.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use outrigger_testbed::{ControlPlane, MASTERS, Result, process::Process};

use crate::workloads;

/// Both run. To be dropped before their control plane, which was started with
/// [`workloads`](outrigger_testbed::Options::workloads).
#[derive(Debug)]
pub(crate) struct Managers(#[expect(dead_code, reason = "they end with it")] [Process; 2]);

impl Managers {
    /// Starts them.
    pub(crate) async fn start(plane: &ControlPlane) -> Result<Self> {
        let kubeconfig = plane.kubeconfig("testbed-managers", Some(MASTERS))?;
        let start = |name: &'static str, program: PathBuf, args: &[String]| {
            let log = plane.dir().join(format!("{name}.log"));
            Process::start(name, &program, args, log)
        };
        let program = workloads::find(&workloads::CONTROLLER_MANAGER).await?;
        let args = controller_manager_args(plane.dir(), &kubeconfig);
        let manager = start("kube-controller-manager", program, &args)?;
        let program = workloads::find(&workloads::SCHEDULER).await?;
        let scheduler = start("kube-scheduler", program, &common_args(&kubeconfig))?;
        Ok(Self([manager, scheduler]))
    }
}

fn common_args(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}

fn controller_manager_args(dir: &Path, kubeconfig: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args = common_args(kubeconfig);
    args.extend([
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        format!(
            "--service-account-private-key-file={}",
            file("service-account.key")
        ),
    ]);
    args
}
