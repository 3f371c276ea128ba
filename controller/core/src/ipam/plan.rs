//! The decision about one Node: its Pod CIDRs, or why it gets none now.
//!
//! The loop calls [`plan`] with the Node as the store has it, and where the provider allocates, with the Pod CIDRs of its
//! answer. A Node that has Pod CIDRs is never changed.

use super::{Allocator, Exhausted, PodCidrProblem};
use crate::{cidr::Cidr, node::NodeView};

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
    Write(Box<[Box<str>]>),
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
            (Some(Ok(cidrs)), _) => write(&cidrs),
            (Some(Err(exhausted)), _) => PodCidrStep::Wait(exhausted),
            (None, None) => PodCidrStep::AskProvider,
            (None, Some(given)) => match allocator.claim(node, given) {
                Ok(cidrs) if cidrs.is_empty() => PodCidrStep::WaitForProvider,
                Ok(cidrs) => write(&cidrs),
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

fn write(cidrs: &[Cidr]) -> PodCidrStep {
    PodCidrStep::Write(cidrs.iter().map(|cidr| cidr.to_string().into()).collect())
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
mod tests {
    use jiff::Timestamp;

    use super::{PodCidrStep, needs_provider};
    use crate::{
        cidr::Cidr,
        fixture::{map, registered},
        ipam::{Allocator, Exhausted, PodCidrProblem, pool::Pool},
        node::{LABEL_PAUSED, NodeView},
    };

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    fn one_block() -> Allocator {
        Allocator::from_pools(vec![Pool::new(cidr("10.244.0.0/24"), 24, &[]).unwrap()])
    }

    fn has(name: &str, pod_cidr: &str) -> NodeView {
        NodeView {
            pod_cidrs: [pod_cidr.into()].into(),
            ..registered(name)
        }
    }

    fn plan(node: &NodeView, allocator: &mut Allocator) -> super::PodCidrPlan {
        super::plan(node, None::<&[&str]>, allocator)
    }

    fn write(cidr: &str) -> PodCidrStep {
        PodCidrStep::Write([cidr.into()].into())
    }

    fn paused(name: &str) -> NodeView {
        NodeView {
            labels: map(&[(LABEL_PAUSED, "true")]),
            ..registered(name)
        }
    }

    fn deleting(name: &str) -> NodeView {
        NodeView {
            deleted: Some(Timestamp::UNIX_EPOCH),
            ..registered(name)
        }
    }

    /// I-10, I-11, I-13.
    #[test]
    fn only_a_node_without_pod_cidrs_gets_some() {
        let mut allocator = one_block();
        for node in [deleting("a"), paused("a")] {
            assert_eq!(plan(&node, &mut allocator).step, PodCidrStep::Nothing);
        }
        let expected = write("10.244.0.0/24");
        assert_eq!(plan(&registered("a"), &mut allocator).step, expected);
        let exhausted = Exhausted {
            pool: 0,
            range: cidr("10.244.0.0/24"),
        };
        let b = plan(&registered("b"), &mut allocator);
        assert_eq!(b.step, PodCidrStep::Wait(exhausted));
        // It was paused meanwhile, and may have been written.
        assert_eq!(
            plan(&paused("a"), &mut allocator).step,
            PodCidrStep::Nothing
        );
        let c = plan(&has("c", "fd00::/64"), &mut allocator);
        assert_eq!((c.problems.len(), c.step), (1, PodCidrStep::Nothing));
        assert_eq!(plan(&registered("a"), &mut allocator).step, expected);
    }

    /// I-20 is not copied.
    #[test]
    fn the_provider_is_asked_where_it_allocates() {
        let mut allocator = Allocator::from_provider();
        let (a, b) = (registered("a"), registered("b"));
        let ask = |node: &NodeView, allocator: &mut Allocator| plan(node, allocator).step;
        assert_eq!(ask(&a, &mut allocator), PodCidrStep::AskProvider);
        assert_eq!(ask(&deleting("a"), &mut allocator), PodCidrStep::Nothing);
        for (node, needed) in [
            (&a, true),
            (&deleting("a"), false),
            (&paused("a"), false),
            (&has("a", "10.1.0.0/24"), false),
        ] {
            assert_eq!(needs_provider(node, &allocator), needed);
            assert!(!needs_provider(node, &one_block()));
        }
        let mut answer =
            |node: &NodeView, given: &[&str]| super::plan(node, Some(given), &mut allocator).step;
        assert_eq!(answer(&a, &[]), PodCidrStep::WaitForProvider);
        let expected = write("10.1.0.0/24");
        assert_eq!(answer(&a, &["10.1.0.7/24"]), expected);
        assert!(matches!(
            answer(&b, &["10.1.0.0/24"]),
            PodCidrStep::Refuse(problem) if problem.reason == PodCidrProblem::DUPLICATE
        ));
        // While the provider was asked.
        assert_eq!(
            answer(&deleting("b"), &["10.2.0.0/24"]),
            PodCidrStep::Nothing
        );
        assert_eq!(
            answer(&has("b", "10.3.0.0/24"), &["10.2.0.0/24"]),
            PodCidrStep::Nothing
        );
        // Once written it stays as it is.
        assert_eq!(
            ask(&has("a", "10.1.0.0/24"), &mut allocator),
            PodCidrStep::Nothing
        );
        assert_eq!(allocator.observe(&has("b", "10.1.0.0/24")).len(), 1);
    }

    /// I-10: the list at the start is newer than the store.
    #[test]
    fn a_node_that_had_a_cidr_in_the_list_is_not_written_though_the_store_shows_none() {
        let mut allocator = one_block();
        allocator.observe_listed(&has("a", "10.244.0.0/24"));
        let planned = plan(&registered("a"), &mut allocator);
        assert_eq!(planned.step, PodCidrStep::Nothing);
    }
}
