//! The decision about one Node.

use super::{Allocator, Exhausted, PodCidrProblem};
use crate::{
    cidr::Cidr,
    node::{NodeView, change::PodCidrsWrite},
};

/// The decision about the Pod CIDRs of one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCidrPlan {
    /// Warnings about CIDRs that the Node has, each once.
    pub problems: Vec<PodCidrProblem>,
    /// The next step.
    pub step: PodCidrStep,
}

/// The next step for one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodCidrStep {
    /// It has Pod CIDRs, is being deleted, or is paused.
    Nothing,
    /// The write that gives them to the Node.
    Write(PodCidrsWrite),
    /// The provider allocates, and was not asked yet.
    AskProvider,
    /// No CIDR is left for it: again with back-off (I-13).
    Wait(Exhausted),
    /// The cloud has no CIDR for the instance yet: again with back-off.
    WaitForProvider,
    /// The provider's CIDRs cannot be written: again with back-off.
    Refuse(PodCidrProblem),
}

/// The next step for `node` as the store has it. `given`: the Pod CIDRs that the provider named for it,
/// if it [must be asked](needs_provider).
pub fn plan(
    node: &NodeView,
    given: Option<&[impl AsRef<str>]>,
    allocator: &mut Allocator,
) -> PodCidrPlan {
    let problems = allocator.observe(node);
    let step = if is_settled(node, allocator) {
        PodCidrStep::Nothing
    } else {
        match (allocator.allocate(node), given) {
            (Some(Ok(cidrs)), _) => write(node, &cidrs),
            (Some(Err(exhausted)), _) => PodCidrStep::Wait(exhausted),
            (None, None) => PodCidrStep::AskProvider,
            (None, Some(given)) => match allocator.claim(node, given) {
                Ok(cidrs) if cidrs.is_empty() => PodCidrStep::WaitForProvider,
                Ok(cidrs) => write(node, &cidrs),
                Err(problem) => PodCidrStep::Refuse(problem),
            },
        }
    };
    PodCidrPlan { problems, step }
}

/// Returns true if the provider is asked for the Pod CIDRs of `node`.
pub fn needs_provider(node: &NodeView, allocator: &Allocator) -> bool {
    allocator.asks_provider() && !is_settled(node, allocator)
}

fn write(node: &NodeView, cidrs: &[Cidr]) -> PodCidrStep {
    PodCidrStep::Write(PodCidrsWrite {
        uid: node.uid.clone(),
        cidrs: cidrs.iter().map(|cidr| cidr.to_string().into()).collect(),
    })
}

/// I-10, I-11: any Pod CIDR is left as it is, and so is a Node that had one in the list at the start, though
/// the store does not show it yet.
fn is_settled(node: &NodeView, allocator: &Allocator) -> bool {
    !node.pod_cidrs.is_empty()
        || node.deleted.is_some()
        || node.is_paused()
        || allocator.has_observed_cidrs(node)
}

#[cfg(test)]
mod tests;
