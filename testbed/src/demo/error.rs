//! Errors of a demo.

use std::{path::PathBuf, process::ExitStatus, time::Duration};

use super::narrator::count_of;
use crate::error::some;

/// An error of the demo. Its text names the event, the object and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the testbed that the demo stands on.
    #[error(transparent)]
    Testbed(#[from] crate::Error),
    /// The file of `--kubeconfig` is missing or makes no sense.
    #[error(
        "cannot use --kubeconfig {}: {reason}. Correct it, or leave --kubeconfig out to let the \
         demo run its own cluster", path.display()
    )]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The API server of `--kubeconfig` does not answer.
    #[error(
        "cannot reach the API server {server} that --kubeconfig {} names: {reason}. Start that \
         cluster, or leave --kubeconfig out to let the demo run its own", path.display()
    )]
    Unreachable {
        /// Its address.
        server: String,
        /// The kubeconfig.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// Nodes of others would be initialised, too.
    #[error(
        "{} for another cloud controller ({names}): the demo would write made-up \
         addresses to them. Use another cluster, or leave --kubeconfig out to let the demo run its own", waiting(*count)
    )]
    NodesOfOthers {
        /// How many.
        count: usize,
        /// Some of their names.
        names: String,
    },
    /// Nodes of others could have these names.
    #[error(
        "the cloud of the provider {provider} names its machines itself, and the demo could not tell its \
         nodes from others: leave --kubeconfig out to let the demo run its own cluster"
    )]
    NamedMachines {
        /// The provider.
        provider: &'static str,
    },
    /// `cargo build` failed.
    #[error("`cargo build` of {programs} failed ({status}):\n{output}")]
    Cargo {
        /// The programs to build.
        programs: String,
        /// How cargo ended.
        status: ExitStatus,
        /// The last lines it printed.
        output: String,
    },
    /// The demo's own API server stopped answering.
    #[error(
        "kube-apiserver does not answer any more: {reason}. The last lines of its log:\n{log_end}"
    )]
    ApiServerGone {
        /// The error of the last request.
        reason: String,
        /// The last lines of its log.
        log_end: String,
    },
    /// Nodes have their taint, Services no address, or a volume no labels, when the time is over.
    #[error(
        "{} not {state} within {timeout:?}. The last lines of cloud-controller-manager's \
         log:\n{log_end}",
        some(late, "was", "were")
    )]
    Late {
        /// The names of the objects.
        late: Vec<String>,
        /// The state that they do not have.
        state: &'static str,
        /// How long it was waited for.
        timeout: Duration,
        /// The last lines of the controller's log.
        log_end: String,
    },
    /// The demo's nodes could not be deleted from an existing cluster.
    #[error(
        "the demo's nodes may still be in the cluster: {reason}. Delete them with `kubectl \
         --kubeconfig {} delete nodes -l {selector}`", path.display()
    )]
    NodesLeft {
        /// Why.
        reason: String,
        /// The kubeconfig.
        path: PathBuf,
        /// The label that they carry.
        selector: String,
    },
}

fn waiting(count: usize) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    format!("{} of this cluster {verb}", count_of(count, "node"))
}

/// The innermost cause: the layers around it add nothing.
pub(super) fn root(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let text = error.to_string();
    // Some show an excerpt of what they read in further lines.
    text.lines().next().unwrap_or_default().to_owned()
}
