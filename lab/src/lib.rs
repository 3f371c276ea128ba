//! Clusters with real kubelets, and incidents: what they show of the controller.
//!
//! ```text
//!  pod, pod_check ─► RealNode ─► kubelet, containerd   ControlPlane (of the testbed)
//!  traffic ─► RealCluster ─► several of them in a cloud of network namespaces (provider-linux)
//! ```
//!
//! - [`cli`] has the commands,
//! - `real_node` is a machine with containerd and a kubelet, `pod_check` runs controller and provider on it as a Pod,
//! - `real_cluster` is several machines, `traffic` connects to Services of their Pods,
//! - `workloads` finds or builds what runs Pods, `managers` runs what schedules them,
//! - `incident` plays published incidents of other controllers, by the acts of `script`,
//! - [`floor`] measures the writes of a controller alone.

use std::io::{self, Write as _};

pub mod cli;
pub mod floor;
mod images;
mod incident;
mod managers;
mod pod;
mod pod_check;
mod programs;
mod real_cluster;
mod real_node;
mod script;
mod traffic;
mod workloads;

/// A line of the result, on standard output. Errors of writing are ignored: no reader is left then.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
