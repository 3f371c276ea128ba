//! Order of calls under a limit on all classes.

use std::sync::Arc;

use super::{Class, Gate, Purpose};

/// The purpose of a call, the most urgent first: where a limit on all classes together leaves too
/// little, the others wait behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Claim {
    /// [`Purpose::Initialization`].
    Initialization,
    /// [`Purpose::Lifecycle`].
    Lifecycle,
    /// To change load balancers.
    LoadBalancers,
    /// [`Purpose::Refresh`].
    Refresh,
    /// To look at load balancers. The provider's limit on how many calls run at once is on changes
    /// alone, and a long list must not hold them up.
    LoadBalancerChecks,
}

impl Claim {
    pub(super) const COUNT: usize = 5;

    pub(super) const fn class(self) -> Class {
        match self {
            Self::Initialization | Self::Lifecycle | Self::Refresh => Class::Instances,
            Self::LoadBalancers | Self::LoadBalancerChecks => Class::LoadBalancers,
        }
    }

    /// Whether it takes one of the places of the calls that run at once.
    pub(super) const fn is_counted(self) -> bool {
        !matches!(self, Self::LoadBalancerChecks)
    }
}

impl From<Purpose> for Claim {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Initialization => Self::Initialization,
            Purpose::Lifecycle => Self::Lifecycle,
            Purpose::Refresh { .. } => Self::Refresh,
        }
    }
}

/// A place in the line for the limit on all classes, until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Place {
    gate: Arc<Gate>,
    claim: Claim,
}

impl Place {
    /// Of a claim that was counted in already.
    pub(super) const fn new(gate: Arc<Gate>, claim: Claim) -> Self {
        Self { gate, claim }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.lanes.lock().in_line[self.claim as usize] -= 1;
    }
}
