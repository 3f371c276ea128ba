//! Delays a set of targets when many nodes stop being targets in one step without being deleted: more
//! likely a mistake (a label on all nodes, a truncated list) than intended, and an outage if it is
//! applied.

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::exclusion;
use crate::{api_time::after, node::NodeView, selector::Selector};

/// How many targets may go in one step. The defaults are those of the flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// So many may always go.
    pub few: usize,
    /// Part of the targets, 0 to 1, that may go in one step.
    pub fraction: f64,
    /// How long a step with more is held before it is applied.
    pub hold: Duration,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            few: 3,
            fraction: 0.5,
            hold: Duration::from_secs(30),
        }
    }
}

/// Nodes that are kept as targets for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptTargets {
    /// When they go too: to be asked again then, or when the nodes change.
    pub until: Timestamp,
    /// How many nodes are kept.
    pub kept: usize,
    /// How many of them are kept because a list did not show them.
    pub missing: usize,
}

impl KeptTargets {
    /// The sum of two sets of targets, which may keep the same nodes: the earlier end, and the larger numbers.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            until: self.until.min(other.until),
            kept: self.kept.max(other.kept),
            missing: self.missing.max(other.missing),
        }
    }
}

/// Compares the nodes with the set that went out last. At the start there is none, and nothing is held.
///
/// Nodes that are deleted or being deleted leave in any number.
#[derive(Clone, Debug)]
pub(super) struct ShrinkGuard {
    allowance: Allowance,
    /// By name.
    last: Option<Box<[Arc<NodeView>]>>,
    held_since: Option<Timestamp>,
}

impl ShrinkGuard {
    /// Knows no set yet.
    pub(super) const fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            last: None,
            held_since: None,
        }
    }

    /// The targets that go out now: those among all `nodes`, by name, that `selector` selects, and those that are
    /// kept. `missing` are names that a list did not show and whose deletion is not confirmed; any other node
    /// of the last set that is not among `nodes` is deleted.
    ///
    /// The time counts from the first set in a row that has lost too many; one that has not ends it.
    pub(super) fn propose(
        &mut self,
        now: Timestamp,
        nodes: &[Arc<NodeView>],
        selector: Option<&Selector>,
        missing: &HashSet<Arc<str>>,
    ) -> (Vec<Arc<NodeView>>, Option<KeptTargets>) {
        let is_target = |node: &&Arc<NodeView>| {
            exclusion(node).is_none() && selector.is_none_or(|s| s.matches(&node.labels))
        };
        let mut targets: Vec<_> = nodes.iter().filter(is_target).cloned().collect();
        let mut held = None;
        if let Some((kept, missing)) = self.too_many(&targets, nodes, missing) {
            let since = *self.held_since.get_or_insert(now);
            let until = after(since, self.allowance.hold);
            if now < until {
                held = Some(KeptTargets {
                    until,
                    kept: kept.len(),
                    missing,
                });
                targets.extend(kept);
                targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            }
        }
        if held.is_none() {
            self.held_since = None;
        }
        self.last = Some(targets.clone().into());
        (targets, held)
    }

    /// The nodes that would go without being deleted, if they are too many, and how many of them a
    /// list did not show.
    fn too_many(
        &self,
        targets: &[Arc<NodeView>],
        nodes: &[Arc<NodeView>],
        missing: &HashSet<Arc<str>>,
    ) -> Option<(Vec<Arc<NodeView>>, usize)> {
        let last = self.last.as_ref()?;
        let (mut stay, mut kept, mut unseen) = (0_usize, Vec::new(), 0);
        for node in last {
            if named(targets, &node.name).is_some() {
                stay += 1;
            } else if let Some(now) = named(nodes, &node.name) {
                if now.deleted.is_none() {
                    kept.push(Arc::clone(now));
                }
            } else if missing.contains(&node.name) {
                kept.push(Arc::clone(node));
                unseen += 1;
            }
        }
        let part = self.allowance.fraction * (stay + kept.len()) as f64;
        let is_much = kept.len() > self.allowance.few && kept.len() as f64 > part;
        is_much.then_some((kept, unseen))
    }
}

/// The node `name` among `nodes`, which come by name.
fn named<'a>(nodes: &'a [Arc<NodeView>], name: &str) -> Option<&'a Arc<NodeView>> {
    let at = nodes.binary_search_by(|node| (*node.name).cmp(name)).ok()?;
    nodes.get(at)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, ops::Range, sync::Arc, time::Duration};

    use jiff::Timestamp;
    use proptest::{collection::vec, prelude::*};

    use super::{Allowance, KeptTargets, NodeView, ShrinkGuard};
    use crate::{
        fixture::{map, registered},
        targets::{LABEL_EXCLUDE, Targets},
    };

    /// The targets that go out.
    struct Proposal {
        targets: Vec<Arc<NodeView>>,
        held: Option<KeptTargets>,
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    fn node(n: usize) -> Arc<NodeView> {
        Arc::new(registered(&format!("n{n}")))
    }

    fn excluded(n: usize) -> Arc<NodeView> {
        Arc::new(NodeView {
            labels: map(&[(LABEL_EXCLUDE, "true")]),
            ..registered(&format!("n{n}"))
        })
    }

    /// `all` nodes of which those in `targets` are targets and the others excluded by their label.
    fn labelled(all: usize, targets: &Range<usize>) -> Vec<Arc<NodeView>> {
        let is_target = |n: &usize| targets.contains(n);
        let nodes = 0..all.max(targets.end);
        nodes
            .map(|n| if is_target(&n) { node(n) } else { excluded(n) })
            .collect()
    }

    fn propose(guard: &mut ShrinkGuard, secs: i64, nodes: Vec<Arc<NodeView>>) -> Proposal {
        propose_without(guard, at(secs), nodes, &HashSet::new())
    }

    fn propose_without(
        guard: &mut ShrinkGuard,
        now: Timestamp,
        mut nodes: Vec<Arc<NodeView>>,
        missing: &HashSet<Arc<str>>,
    ) -> Proposal {
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let (targets, held) = guard.propose(now, &nodes, None, missing);
        Proposal { targets, held }
    }

    fn guard(last: usize) -> ShrinkGuard {
        let mut guard = ShrinkGuard::new(Allowance::default());
        let proposal = propose(&mut guard, 0, (0..last).map(node).collect());
        assert_eq!((proposal.targets.len(), proposal.held), (last, None));
        guard
    }

    fn names(proposal: &Proposal) -> Vec<&str> {
        let nodes = proposal.targets.iter();
        nodes.map(|node| &*node.name).collect()
    }

    fn held(until: i64, kept: usize) -> KeptTargets {
        KeptTargets {
            until: at(until),
            kept,
            missing: 0,
        }
    }

    #[test]
    fn more_than_half_and_more_than_three_are_held() {
        for (before, after, is_held) in [
            (0, 0, false),
            (3, 0, false),
            (4, 0, true),
            (4, 1, false),
            (8, 4, false),
            (8, 3, true),
            (100, 50, false),
            (100, 49, true),
        ] {
            let proposal = propose(&mut guard(before), 1, labelled(before, &(0..after)));
            let expected = is_held.then(|| held(31, before - after));
            assert_eq!(proposal.held, expected, "{before} to {after}");
            let count = if is_held { before } else { after };
            assert_eq!(proposal.targets.len(), count, "{before} to {after}");
        }
    }

    /// There are as many as before, but others.
    #[test]
    fn the_nodes_that_go_count_and_not_how_many_there_are() {
        let proposal = propose(&mut guard(8), 1, labelled(8, &(3..11)));
        assert_eq!(proposal.held, None);
        let proposal = propose(&mut guard(8), 1, labelled(8, &(5..13)));
        assert_eq!(proposal.held, Some(held(31, 5)));
        assert_eq!(proposal.targets.len(), 13, "with those that are new");
    }

    #[test]
    fn a_loss_that_lasts_is_believed() {
        let mut guard = guard(10);
        let proposal = propose(&mut guard, 1, labelled(10, &(0..2)));
        assert_eq!(proposal.held, Some(held(31, 8)));
        // It goes on falling, and its time with it.
        let proposal = propose(&mut guard, 20, labelled(10, &(0..1)));
        assert_eq!(proposal.held, Some(held(31, 9)));
        let proposal = propose(&mut guard, 31, labelled(10, &(0..1)));
        assert_eq!((names(&proposal), proposal.held), (vec!["n0"], None));
    }

    #[test]
    fn nodes_that_come_back_end_it() {
        let mut guard = guard(10);
        assert!(propose(&mut guard, 1, labelled(10, &(0..2))).held.is_some());
        assert_eq!(propose(&mut guard, 5, labelled(10, &(0..9))).held, None);
        let proposal = propose(&mut guard, 6, labelled(10, &(0..2)));
        assert_eq!(proposal.held, Some(held(36, 7)));
    }

    #[test]
    fn deleted_nodes_go_at_any_number() {
        let mut guard = guard(10);
        assert_eq!(names(&propose(&mut guard, 1, vec![node(3)])), ["n3"]);
        let being_deleted = |n| {
            Arc::new(NodeView {
                deleted: Some(at(0)),
                ..registered(&format!("n{n}"))
            })
        };
        let mut guard = self::guard(10);
        let proposal = propose(&mut guard, 1, (0..10).map(being_deleted).collect());
        assert_eq!((names(&proposal), proposal.held), (vec![], None));
    }

    /// Nodes that are deleted while others are held back do not wait for them.
    #[test]
    fn a_node_that_is_held_back_goes_when_it_is_deleted() {
        let mut guard = guard(10);
        let mut nodes = labelled(10, &(0..2));
        assert!(propose(&mut guard, 1, nodes.clone()).held.is_some());
        nodes.retain(|node| &*node.name != "n0" && &*node.name != "n9");
        let proposal = propose(&mut guard, 2, nodes);
        assert_eq!(proposal.held, Some(held(31, 7)));
        assert_eq!(
            names(&proposal),
            ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]
        );
    }

    #[test]
    fn nodes_that_a_list_did_not_show_are_held_until_their_deletion_is_confirmed() {
        let mut guard = guard(10);
        let mut missing: HashSet<Arc<str>> = (2..10).map(|n| node(n).name.clone()).collect();
        let left = || vec![node(0), node(1)];
        let proposal = propose_without(&mut guard, at(1), left(), &missing);
        let expected = KeptTargets {
            missing: 8,
            ..held(31, 8)
        };
        assert_eq!(proposal.held, Some(expected));
        assert_eq!(proposal.targets.len(), 10);
        missing.remove("n2");
        let proposal = propose_without(&mut guard, at(2), left(), &missing);
        assert_eq!(proposal.targets.len(), 9);
        missing.clear();
        let proposal = propose_without(&mut guard, at(3), left(), &missing);
        assert_eq!((names(&proposal), proposal.held), (vec!["n0", "n1"], None));
    }

    #[test]
    fn a_held_node_goes_out_as_it_is_now() {
        let mut guard = guard(4);
        let proposal = propose(&mut guard, 1, labelled(4, &(0..0)));
        assert!(proposal.held.is_some());
        assert!(
            proposal
                .targets
                .iter()
                .all(|node| node.labels.get(LABEL_EXCLUDE).is_some())
        );
    }

    proptest! {
        /// Whatever is proposed, it goes out within the hold of being proposed steadily.
        #[test]
        fn nothing_is_held_for_longer_than_the_hold(
            steps in vec((0..20_i64, 0..12_usize, 0..12_usize), 1..40),
        ) {
            let allowance = Allowance::default();
            let mut guard = ShrinkGuard::new(allowance);
            let mut now = at(0);
            for (gap, count, all) in steps {
                now += Duration::from_secs(gap as u64);
                let nodes = labelled(all, &(0..count));
                let wanted = Targets::among(nodes.iter().cloned());
                let there: HashSet<_> = nodes.iter().map(|node| node.name.clone()).collect();
                let none = HashSet::new();
                let proposal = propose_without(&mut guard, now, nodes.clone(), &none);
                for node in &proposal.targets {
                    prop_assert!(there.contains(&node.name), "a deleted node");
                }
                for node in wanted.nodes() {
                    prop_assert!(proposal.targets.contains(node), "a node was left out");
                }
                match proposal.held {
                    None => prop_assert_eq!(proposal.targets, wanted.nodes()),
                    Some(KeptTargets { until, kept, .. }) => {
                        prop_assert!(kept > allowance.few);
                        prop_assert!(now < until && until <= now + allowance.hold);
                        let later = propose_without(&mut guard.clone(), until, nodes, &none);
                        prop_assert_eq!(later.targets, wanted.nodes());
                    }
                }
            }
        }
    }
}
