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
    /// The provider is asked for the instance; its CIDRs go to [`answered`].
    AskProvider,
    /// No CIDR is left for it: again with back-off (I-13).
    Wait(Exhausted),
    /// The cloud has no CIDR for the instance yet: again with back-off.
    WaitForProvider,
    /// The provider's CIDRs cannot be written: again with back-off.
    Refuse(PodCidrProblem),
}

/// The next step for `node` as the store has it.
pub fn plan(node: &NodeView, allocator: &mut Allocator) -> PodCidrPlan {
    let problems = allocator.observe(node);
    let step = if is_settled(node) {
        PodCidrStep::Nothing
    } else {
        match allocator.allocate(node) {
            None => PodCidrStep::AskProvider,
            Some(Ok(cidrs)) => write(node, &cidrs),
            Some(Err(exhausted)) => PodCidrStep::Wait(exhausted),
        }
    };
    PodCidrPlan { problems, step }
}

/// The next step once the provider has named `given` for `node` as the store has it by now.
pub fn answered(
    node: &NodeView,
    given: &[impl AsRef<str>],
    allocator: &mut Allocator,
) -> PodCidrStep {
    if is_settled(node) {
        return PodCidrStep::Nothing;
    }
    match allocator.claim(node, given) {
        Ok(cidrs) if cidrs.is_empty() => PodCidrStep::WaitForProvider,
        Ok(cidrs) => write(node, &cidrs),
        Err(problem) => PodCidrStep::Refuse(problem),
    }
}

fn write(node: &NodeView, cidrs: &[Cidr]) -> PodCidrStep {
    PodCidrStep::Write(PodCidrsWrite {
        uid: node.uid.clone(),
        cidrs: cidrs.iter().map(|cidr| cidr.to_string().into()).collect(),
    })
}

/// I-10, I-11: any Pod CIDR is left as it is.
fn is_settled(node: &NodeView) -> bool {
    !node.pod_cidrs.is_empty() || node.deleted.is_some() || node.is_paused()
}

#[cfg(test)]
mod tests;
