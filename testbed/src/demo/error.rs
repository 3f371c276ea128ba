//! Errors of a demo, for readers who try the project: each says what to do next.

use std::{process::ExitStatus, time::Duration};

use crate::error::some;

/// An error of the demo. Its text names the event, the object and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the testbed that the demo stands on.
    #[error(transparent)]
    Testbed(#[from] crate::Error),
    /// `cargo build` failed.
    #[error("`cargo build` of {programs} failed ({status}); cargo says why above")]
    Cargo {
        /// The programs to build.
        programs: String,
        /// How cargo ended.
        status: ExitStatus,
    },
    /// Nodes have their taint, or Services no address, when the time is over.
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
}
