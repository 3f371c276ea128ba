//! Random histories of an API server, of the replicas that lead one after the other, and of other
//! writers.

mod world;

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use self::world::{World, held};
use super::cidr;
use crate::{cidr::Cidr, ipam::PodCidrProblem};

/// `10.244.0.0/20` in 8 blocks, one of which is for Services.
const RANGE: &str = "10.244.0.0/20";
const PREFIX_LEN: u8 = 23;
const SERVICES: &str = "10.244.4.0/24";
const NODES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A Node joins, or leaves if it is there.
    Toggle(usize),
    /// A Node leaves and joins again, and another client writes a Pod CIDR before the leader sees it.
    Remake(usize, Cidr),
    /// Another client writes a Pod CIDR.
    Other(usize, Cidr),
    /// The leader's store receives the oldest event.
    Event,
    /// The leader reconciles a Node.
    Reconcile(usize),
    /// The leader waits no longer for an answer; the write may still arrive.
    TimeOut(usize),
    /// A write arrives; the leader receives the answer, or does not.
    Arrive(usize, bool),
    /// A write is lost.
    Lose(usize),
    /// Another replica leads: each write in flight arrives, is lost, or is late, and the replica lists
    /// after that. Its store is as old as that of the last leader.
    FailOver { arriving: u8, late: u8 },
}

/// CIDRs of other writers: `careful` ones leave the cluster CIDR alone.
/// Nor is a write late then.
fn steps(careful: bool) -> impl Strategy<Value = Vec<Step>> {
    let at = 0..NODES.len();
    let base = cidr(if careful { "10.128.0.0/20" } else { RANGE });
    let others = (at.clone(), 0_u128..16, 20_u8..=25).prop_map(move |(at, block, len)| {
        let first = base.first_bits() + (block << 8);
        (at, Cidr::from_bits(base.family(), first, len).unwrap())
    });
    let step = prop_oneof![
        3 => at.clone().prop_map(Step::Toggle),
        1 => others.clone().prop_map(|(at, cidr)| Step::Other(at, cidr)),
        1 => others.prop_map(|(at, cidr)| Step::Remake(at, cidr)),
        6 => Just(Step::Event),
        6 => at.clone().prop_map(Step::Reconcile),
        4 => (at.clone(), any::<bool>()).prop_map(|(at, is_answered)| Step::Arrive(at, is_answered)),
        2 => at.clone().prop_map(Step::TimeOut),
        1 => at.prop_map(Step::Lose),
        1 => (any::<u8>(), any::<u8>()).prop_map(move |(arriving, late)| {
            let late = if careful { 0 } else { late };
            Step::FailOver { arriving, late }
        }),
    ];
    vec(step, 1..120)
}

proptest! {
    /// I-15 to I-17.
    #[test]
    fn no_two_nodes_get_one_cidr(steps in steps(true)) {
        let mut world = World::new();
        for step in steps {
            let may_be_duplicate = matches!(step, Step::Other(..) | Step::Remake(..));
            let before = world.duplicates().len();
            world.step(step);
            prop_assert!(may_be_duplicate || world.duplicates().len() <= before);
        }
        world.settle();
        let pools = world.api.values().flat_map(held).filter(|held| cidr(RANGE).contains(*held));
        let pools: Vec<_> = pools.collect();
        let each: BTreeSet<_> = pools.iter().collect();
        prop_assert_eq!(each.len(), pools.len());
    }

    #[test]
    fn duplicates_of_other_writers_and_late_writes_are_found_and_not_spread(steps in steps(false)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
        // A replica that begins now reports one Node of each pair.
        world.step(Step::FailOver { arriving: 0, late: 0 });
        let reported = |name: &str| {
            world.problems.iter().any(|problem| {
                let (PodCidrProblem::Duplicate { node, .. } | PodCidrProblem::TooWide { node, .. }) = problem else {
                    return false;
                };
                **node == *name
            })
        };
        for (a, b) in world.duplicates() {
            prop_assert!(reported(a) || reported(b), "{a} {b}: {:?}", world.problems);
        }
    }
}
