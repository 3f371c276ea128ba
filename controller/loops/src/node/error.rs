//! Why a Node could not be initialised this time: the class decides its retry and its event, the sentence is for its owner.

use outrigger_core::{
    error_class::ErrorClass,
    node::{claims::Duplicate, plan},
};

use crate::queue::Outcome;
use outrigger_kube::error::ApiError;

/// Why a node could not be initialised this time: its taint stays, nothing else is changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NodeSyncError {
    /// The provider could not say.
    #[error("failed to get instance metadata: {0}")]
    Lookup(#[from] outrigger_provider::Error),
    /// The provider knows no such machine, perhaps not yet. Deleting is another loop's business.
    #[error("failed to get instance metadata: instance not found: {0}")]
    Absent(String),
    /// The answer and the node do not go together.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// Another node has the provider id.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// It was paused, or became another provider's, before it was written. Its next change is looked at.
    #[error("the node is left alone: it is paused, another provider's or not selected")]
    LeftAlone,
    /// The API server did not take a write.
    #[error("failed to write the node: {0}")]
    Write(#[from] ApiError),
}

impl NodeSyncError {
    /// The cause without the node, where it may be that of many nodes: one call that fails is one cause.
    pub(super) fn common_cause(&self) -> Option<String> {
        match self {
            Self::Write(error) => Some(error.cause()),
            Self::Lookup(error) => Some(error.steady()),
            _ => None,
        }
    }

    /// When the node is tried again.
    pub(super) fn retry(&self) -> Outcome {
        match self {
            Self::Write(error) => error.requeue().into(),
            Self::LeftAlone => Outcome::Done,
            _ => self.class().requeue().into(),
        }
    }

    /// Decides the requeue.
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::Lookup(error) => error.class(),
            Self::Plan(error) => error.class(),
            Self::Absent(_) | Self::Duplicate(_) => ErrorClass::NotReady,
            Self::Write(error) => error.class(),
            Self::LeftAlone => ErrorClass::Conflict,
        }
    }
}
