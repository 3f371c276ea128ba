//! Errors of the testbed, for the engineer who runs the test: each names the component or the object, what happened, and
//! what to do.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// An error of the testbed. Its text names the program or object and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Go toolchain is missing and no ready-made binaries were named.
    #[error(
        "cannot build {program}: there is no `go` command. Install Go {needed} or newer{instead}"
    )]
    NoGo {
        /// The program that was to be built.
        program: &'static str,
        /// The oldest Go that can build it.
        needed: String,
        /// The alternative, as the end of a sentence.
        instead: &'static str,
    },
    /// `go build` failed.
    #[error("`go build` of {program} failed ({status}):\n{output}")]
    GoBuild {
        /// The program that was to be built.
        program: &'static str,
        /// How the `go` command ended.
        status: std::process::ExitStatus,
        /// The last lines it printed.
        output: String,
    },
    /// A program that a provider of this repository is built with is not installed.
    #[error(
        "cannot build the provider {provider}: there is no `{program}` command. Install {requires}"
    )]
    NoTool {
        /// The provider.
        provider: &'static str,
        /// The program that is missing.
        program: &'static str,
        /// The programs that it is built and run with.
        requires: &'static str,
    },
    /// A provider of this repository could not be built.
    #[error(
        "cannot build the provider {provider}, which needs {requires}: `{command}` failed ({status}):\n{output}"
    )]
    ProviderBuild {
        /// The provider.
        provider: &'static str,
        /// The programs that it is built and run with.
        requires: &'static str,
        /// The command that failed.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last lines it printed.
        output: String,
    },
    /// A provider of this repository has a conformance run of its own.
    #[error(
        "the provider {provider} is held against the contract by providers/{provider}/conformance/run"
    )]
    NoConformanceRun {
        /// The provider.
        provider: &'static str,
    },
    /// A provider of this repository failed its conformance run.
    #[error("the conformance run of the provider {provider} failed ({status})")]
    NotConforming {
        /// The provider.
        provider: &'static str,
        /// How the suite ended.
        status: std::process::ExitStatus,
    },
    /// `KUBEBUILDER_ASSETS` is set, but a program is not there.
    #[error(
        "KUBEBUILDER_ASSETS is {}, but it has no {program}. Correct the variable, or unset it",
        dir.display()
    )]
    MissingAsset {
        /// The program that was looked for.
        program: &'static str,
        /// The value of the variable.
        dir: PathBuf,
    },
    /// There is no control plane to run.
    #[error(
        "kube-apiserver and etcd are missing: {reason}. Install them with `setup-envtest use {minor}`, or set \
         KUBEBUILDER_ASSETS to a folder that has both"
    )]
    NoControlPlane {
        /// Why they were not downloaded.
        reason: String,
        /// The minor version that is looked for.
        minor: &'static str,
    },
    /// This machine cannot run a kubelet.
    #[error("a real kubelet cannot run here: {0}")]
    NoKubelet(String),
    /// A command of a component failed.
    #[error("`{program}` could not {action} ({status}):\n{output}")]
    Command {
        /// The program.
        program: &'static str,
        /// The failed action, with its object.
        action: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its output.
        output: String,
    },
    /// A component ended without a request.
    #[error(
        "{program} ended by itself ({status}). The end of its log{}:\n{log_end}",
        place(log)
    )]
    Ended {
        /// The component.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its log file.
        log: PathBuf,
        /// The last lines of it.
        log_end: String,
    },
    /// A component did not get ready in time.
    #[error(
        "{program} was not ready after {deadline:?} (last answer: {last}). The end of its log\
         {}:\n{log_end}",
        place(log)
    )]
    NotReady {
        /// The component.
        program: &'static str,
        /// How long it was waited for.
        deadline: Duration,
        /// The error of the last probe.
        last: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of it.
        log_end: String,
    },
    /// A scrape that Prometheus would refuse.
    #[error("Prometheus cannot read this scrape: {0}")]
    Scrape(String),
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// The failed action, with the path or program.
        action: String,
        /// The reason.
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate for {subject:?}: {source}")]
    Certificate {
        /// The subject of the certificate.
        subject: String,
        /// The reason.
        source: rcgen::Error,
    },
    /// A measurement would work on nodes that are not its own.
    #[error(
        "there are already {existing} nodes whose names start with {prefix:?}: delete them, or \
         choose another prefix"
    )]
    NamesTaken {
        /// How many.
        existing: usize,
        /// The prefix of their names.
        prefix: String,
    },
    /// Services have no address when the time is over.
    #[error("{} no address within {timeout:?}", some(late, "has", "have"))]
    Unready {
        /// Their names.
        late: Vec<String>,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// Services that were deleted are still there when the time is over.
    #[error(
        "{} not gone within {timeout:?} of being deleted",
        some(left, "is", "are")
    )]
    Undeleted {
        /// Their names.
        left: Vec<String>,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// A program of this project is not where it is looked for.
    #[error(
        "{program} is neither in {} nor on the PATH. It is in the archives of a release, and `cargo build` makes it in the \
         source tree; check-provider takes --controller, too",
        dir.display()
    )]
    NoProgram {
        /// The program.
        program: &'static str,
        /// Where it was looked for first.
        dir: PathBuf,
    },
    /// The cluster did not get from a provider what it should.
    #[error(
        "{step}: not within {timeout:?}; last seen: {observed}\nThe end of the controller's log:\n\
         {controller}\nThe end of the provider's log:\n{provider}"
    )]
    Unfulfilled {
        /// The step that failed.
        step: String,
        /// How long it was waited for.
        timeout: Duration,
        /// The state of the object at the end.
        observed: String,
        /// The last lines of the controller's log.
        controller: String,
        /// The last lines of the provider's log.
        provider: String,
    },
    /// Published incidents went otherwise than the docs say.
    #[error("{}", .0.join("\n"))]
    Incidents(Vec<String>),
    /// The API server refused a request, or could not be reached.
    #[error("{action}: {source}")]
    Kube {
        /// The failed action, with the object.
        action: String,
        /// The reason.
        source: Box<kube::Error>,
    },
}

impl Error {
    /// The operating system refused `action`.
    pub fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// The API server refused `action`, or could not be reached.
    pub fn kube(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Kube {
            action,
            source: Box::new(source),
        }
    }
}

/// The path of a log, while it is there: most go with their component.
fn place(log: &Path) -> String {
    if log.is_file() {
        format!(", {}", log.display())
    } else {
        String::new()
    }
}

/// Some names, how many there are in all, and a verb.
pub(crate) fn some(names: &[String], one: &str, several: &str) -> String {
    const SHOWN: usize = 10;
    let verb = if names.len() == 1 { one } else { several };
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => format!("{shown} {verb}"),
        more => format!("{shown} and {more} more {verb}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_late_are_named_but_not_all() {
        let some = |names| some(names, "was", "were");
        let names: Vec<_> = (0..12).map(|number| format!("n{number}")).collect();
        assert_eq!(some(&names[..1]), "n0 was");
        assert_eq!(some(&names[..2]), "n0, n1 were");
        assert_eq!(
            some(&names),
            "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more were"
        );
    }
}
