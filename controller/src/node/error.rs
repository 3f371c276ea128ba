//! Why a node could not be initialised this time.

use outrigger_core::{claims::Duplicate, class::ErrorClass, initialize};

use crate::{kube, provider};

/// Why a node could not be initialised this time: its taint stays, nothing else is changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The provider could not say.
    #[error("failed to get instance metadata: {0}")]
    Lookup(#[from] provider::Error),
    /// The provider knows no such machine, perhaps not yet. Deleting is another loop's business.
    #[error("failed to get instance metadata: instance not found")]
    Absent,
    /// The answer and the node do not go together.
    #[error(transparent)]
    Plan(#[from] initialize::Error),
    /// Another node has the provider id.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// The API server did not take a write.
    #[error("failed to write the node: {0}")]
    Write(#[from] kube::error::Error),
}

impl Error {
    /// What happens next.
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::Lookup(error) => error.class(),
            Self::Absent => ErrorClass::NotReady,
            Self::Plan(error) => error.class(),
            Self::Duplicate(error) => error.class(),
            Self::Write(error) => error.class(),
        }
    }
}
