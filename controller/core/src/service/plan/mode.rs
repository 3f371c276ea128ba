//! Which steps wait for others.

use super::{Manner, Progress, ServiceFacts, Step};
use crate::service::{ServiceView, ownership::is_claimed, settled::Hash};

/// How a step is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By itself, at once.
    Alone,
    /// An update of targets, in one call with those of other Services. If the step is another one, it is
    /// background work that comes after the update.
    Batch,
    /// In the background, where it may wait for hours.
    Background,
}

impl Progress {
    /// How `step`, the next one for `service`, is carried out. If a load balancer that is to be ensured in
    /// the background may have other nodes, it is given those of now before; without finalizer or record the
    /// Service gets no call yet.
    pub fn mode(&self, step: &Step, service: &ServiceView, facts: &ServiceFacts<'_>) -> Mode {
        match step {
            Step::Update => Mode::Batch,
            // The write before the call is part of it.
            Step::Prepare(_) | Step::Ensure(_) if self.is_background(service, facts) => {
                if self.needs_targets(service, facts) && is_claimed(service, facts.capability) {
                    Mode::Batch
                } else {
                    Mode::Background
                }
            }
            _ => Mode::Alone,
        }
    }

    fn is_background(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> bool {
        let hash = Hash::of(service, facts.capability);
        let reason = self.reason(service, hash, facts);
        reason.is_some_and(|(_, manner)| manner == Manner::Background)
    }
}
