//! Random histories of an API server, of the replicas that lead one after the other, and of other
//! writers.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use proptest::{collection::vec, prelude::*};

use super::{Allocator, Pool, cidr, node};
use crate::{
    cidr::Cidr,
    ipam::{PodCidrProblem, PodCidrStep, plan},
    node::{NodeView, change::PodCidrsWrite},
};

/// `10.244.0.0/20` in 8 blocks, one of which is for Services.
const RANGE: &str = "10.244.0.0/20";
const PREFIX_LEN: u8 = 23;
const SERVICES: &str = "10.244.4.0/24";
const NODES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A Node joins, or leaves if it is there.
    Toggle(usize),
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
    /// Another replica leads: the writes in flight arrive or are lost, and it lists after that.
    FailOver(u8),
}

/// A write in flight.
struct Write {
    name: Arc<str>,
    change: PodCidrsWrite,
    is_awaited: bool,
}

struct World {
    uids: u32,
    api: BTreeMap<Arc<str>, NodeView>,
    writes: Vec<Write>,
    /// Of the leader.
    store: BTreeMap<Arc<str>, NodeView>,
    events: VecDeque<(Arc<str>, Option<NodeView>)>,
    allocator: Allocator,
    /// UIDs of Nodes that the API server said are gone, perhaps before the store knows.
    gone: BTreeSet<Box<str>>,
    problems: Vec<PodCidrProblem>,
}

fn empty_allocator() -> Allocator {
    Allocator::from_pools(vec![
        Pool::new(cidr(RANGE), PREFIX_LEN, &[cidr(SERVICES)]).unwrap(),
    ])
}

impl World {
    fn new() -> Self {
        Self {
            uids: 0,
            api: BTreeMap::new(),
            writes: Vec::new(),
            store: BTreeMap::new(),
            events: VecDeque::new(),
            allocator: empty_allocator(),
            gone: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Toggle(at) => {
                let name: Arc<str> = NODES[at % NODES.len()].into();
                if self.api.remove(&name).is_none() {
                    self.uids += 1;
                    self.api
                        .insert(Arc::clone(&name), node(&name, self.uids, ""));
                }
                self.notify(name);
            }
            Step::Other(at, cidr) => {
                let name = NODES[at % NODES.len()].into();
                if let Some(node) = self.api.get_mut(&name)
                    && node.pod_cidrs.is_empty()
                {
                    node.pod_cidrs = [cidr.to_string().into()].into();
                    self.notify(name);
                }
            }
            Step::TimeOut(at) => {
                let at = at % self.writes.len().max(1);
                if let Some(write) = self.writes.get_mut(at) {
                    write.is_awaited = false;
                }
            }
            Step::Event => self.receive(),
            Step::Reconcile(at) => self.reconcile(NODES[at % NODES.len()]),
            Step::Arrive(at, is_answered) if !self.writes.is_empty() => {
                let write = self.writes.remove(at % self.writes.len());
                let is_gone = !self.arrive(&write);
                if is_answered && write.is_awaited && is_gone {
                    self.allocator.forget(&write.name, &write.change.uid);
                    self.gone.insert(write.change.uid);
                }
            }
            Step::Lose(at) if !self.writes.is_empty() => {
                self.writes.remove(at % self.writes.len());
            }
            Step::Arrive(..) | Step::Lose(_) => {}
            Step::FailOver(arriving) => self.fail_over(arriving),
        }
        self.check();
    }

    fn notify(&mut self, name: Arc<str>) {
        let node = self.api.get(&name).cloned();
        self.events.push_back((name, node));
    }

    /// As the event handler of the loop.
    fn receive(&mut self) {
        let Some((name, node)) = self.events.pop_front() else {
            return;
        };
        if let Some(node) = node {
            self.problems.extend(self.allocator.observe(&node));
            self.store.insert(name, node);
        } else if let Some(node) = self.store.remove(&name) {
            self.allocator.forget(&name, &node.uid);
        }
    }

    fn reconcile(&mut self, name: &str) {
        let Some(node) = self.store.get(name) else {
            return;
        };
        // One worker has a key at a time.
        if self
            .writes
            .iter()
            .any(|write| write.is_awaited && *write.name == *name)
        {
            return;
        }
        let plan = plan(node, &mut self.allocator);
        assert!(plan.problems.is_empty(), "reported when it was observed");
        match plan.step {
            PodCidrStep::Nothing => assert!(!node.pod_cidrs.is_empty()),
            PodCidrStep::Write(change) => {
                let cidrs: Vec<_> = change.cidrs.iter().map(|text| cidr(text)).collect();
                let seen = self.present().flat_map(held);
                let is_taken = |other: Cidr| cidrs.iter().any(|cidr| cidr.overlaps(other));
                let taken: Vec<_> = seen.filter(|other| is_taken(*other)).collect();
                assert!(
                    taken.is_empty(),
                    "{name} gets {cidrs:?}, though {taken:?} are Nodes'"
                );
                self.writes.push(Write {
                    name: name.into(),
                    change,
                    is_awaited: true,
                });
            }
            PodCidrStep::Wait(_) => {
                // No block without a Node that has or gets it.
                assert_eq!(self.free(), 0);
            }
            step => panic!("{step:?}"),
        }
    }

    /// Whether the Node was there.
    fn arrive(&mut self, write: &Write) -> bool {
        let Some(node) = self.api.get_mut(&write.name) else {
            return false;
        };
        if node.uid != write.change.uid {
            return false;
        }
        if node.pod_cidrs.is_empty() {
            *node = write.change.applied_to(node, "8");
            self.notify(Arc::clone(&write.name));
        }
        true
    }

    fn fail_over(&mut self, arriving: u8) {
        for (at, write) in std::mem::take(&mut self.writes).iter().enumerate() {
            if arriving >> (at % 8) & 1 == 1 {
                self.arrive(write);
            }
        }
        self.events.clear();
        self.store = self.api.clone();
        self.allocator = empty_allocator();
        self.problems.clear();
        for node in self.api.values() {
            self.problems.extend(self.allocator.observe(node));
        }
    }

    fn present(&self) -> impl Iterator<Item = &NodeView> {
        self.store
            .values()
            .filter(|node| !self.gone.contains(&node.uid))
    }

    fn free(&self) -> u64 {
        self.allocator.sizes().map(|(_, size)| size.free).sum()
    }

    /// The counts against a model that goes over all Nodes of the store and all writes.
    fn check(&self) {
        let size = self.allocator.sizes().next().unwrap().1;
        assert_eq!(size.total, 7);
        let range = cidr(RANGE);
        let blocks = (0..8).map(|block| {
            Cidr::from_bits(
                range.family(),
                range.first_bits() + (block << 9),
                PREFIX_LEN,
            )
            .unwrap()
        });
        let blocks: Vec<_> = blocks
            .filter(|block| !block.overlaps(cidr(SERVICES)))
            .collect();
        let in_use = |held: Vec<Cidr>| {
            let is_in = |block: &&Cidr| {
                let mut held = held.iter();
                held.any(|cidr| cidr.overlaps(**block) && range.contains(*cidr))
            };
            blocks.iter().filter(is_in).count() as u64
        };
        // Each Node without Pod CIDRs may hold one more, and so may one that is gone, until its
        // deletion is received.
        let least = in_use(self.present().flat_map(held).collect());
        let most = in_use(self.store.values().flat_map(held).collect());
        let waiting = self
            .store
            .values()
            .filter(|node| node.pod_cidrs.is_empty())
            .count() as u64;
        let used = size.total - size.free;
        assert!(
            least <= used && used <= most + waiting,
            "{least} {used} {most} {waiting}"
        );
    }

    /// Pairs of Nodes of the API server that have an address in common.
    fn duplicates(&self) -> BTreeSet<(&str, &str)> {
        let all: Vec<_> = self.api.iter().collect();
        let pairs = all.iter().flat_map(|(a, of_a)| {
            let others = all.iter().filter(move |(b, _)| a < b);
            let others = others.filter(|(_, of_b)| {
                held(of_a).any(|cidr| held(of_b).any(|other| cidr.overlaps(other)))
            });
            others.map(move |(b, _)| (&***a, &***b))
        });
        pairs.collect()
    }

    /// All events are received, all writes are answered, and each Node has been reconciled.
    fn settle(&mut self) {
        for _ in 0..3 {
            while !self.writes.is_empty() {
                self.step(Step::Arrive(0, true));
            }
            while !self.events.is_empty() {
                self.step(Step::Event);
            }
            for at in 0..NODES.len() {
                self.step(Step::Reconcile(at));
            }
        }
        assert!(self.writes.is_empty() && self.store == self.api);
        let waits = self.api.values().any(|node| node.pod_cidrs.is_empty());
        assert!(!waits || self.free() == 0, "{} are free", self.free());
    }
}

fn held(node: &NodeView) -> impl Iterator<Item = Cidr> {
    node.pod_cidrs.iter().filter_map(|cidr| Cidr::parse(cidr))
}

/// CIDRs of other writers: `careful` ones leave the cluster CIDR alone.
fn steps(careful: bool) -> impl Strategy<Value = Vec<Step>> {
    let at = 0..NODES.len();
    let base = cidr(if careful { "10.128.0.0/20" } else { RANGE });
    let others = (at.clone(), 0_u128..16, 20_u8..=25).prop_map(move |(at, block, len)| {
        let first = base.first_bits() + (block << 8);
        Step::Other(at, Cidr::from_bits(base.family(), first, len).unwrap())
    });
    let step = prop_oneof![
        3 => at.clone().prop_map(Step::Toggle),
        1 => others,
        6 => Just(Step::Event),
        6 => at.clone().prop_map(Step::Reconcile),
        4 => (at.clone(), any::<bool>()).prop_map(|(at, is_answered)| Step::Arrive(at, is_answered)),
        2 => at.clone().prop_map(Step::TimeOut),
        1 => at.prop_map(Step::Lose),
        1 => any::<u8>().prop_map(Step::FailOver),
    ];
    vec(step, 1..120)
}

proptest! {
    /// I-15 to I-17.
    #[test]
    fn no_two_nodes_get_one_cidr(steps in steps(true)) {
        let mut world = World::new();
        for step in steps {
            let may_be_duplicate = matches!(step, Step::Other(..));
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
    fn duplicates_of_other_writers_are_found_and_not_spread(steps in steps(false)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
        // A replica that begins now reports one Node of each pair.
        world.step(Step::FailOver(0));
        let reported = |name: &str| {
            world.problems.iter().any(|problem| {
                matches!(problem, PodCidrProblem::Duplicate { node, .. } if **node == *name)
            })
        };
        for (a, b) in world.duplicates() {
            prop_assert!(reported(a) || reported(b), "{a} {b}: {:?}", world.problems);
        }
    }
}
