//! The API server, the leader's store and its allocator, and the model of them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{
    super::{Allocator, Pool, cidr, node},
    NODES, PREFIX_LEN, RANGE, SERVICES, Step,
};
use crate::{
    cidr::Cidr,
    ipam::{PodCidrProblem, PodCidrStep, plan},
    node::{NodeView, change::PodCidrsWrite},
};

/// A write in flight.
struct Write {
    name: Arc<str>,
    change: PodCidrsWrite,
    is_awaited: bool,
}

pub(super) struct World {
    uids: u32,
    pub(super) api: BTreeMap<Arc<str>, NodeView>,
    writes: Vec<Write>,
    /// The store of the leader.
    store: BTreeMap<Arc<str>, NodeView>,
    events: VecDeque<(Arc<str>, Option<NodeView>)>,
    allocator: Allocator,
    /// Nodes of the list at the start of the lease term that are not gone as far as the leader knows.
    listed: BTreeMap<Arc<str>, NodeView>,
    /// UIDs of Nodes that the API server said are gone, perhaps before the store knows.
    gone: BTreeSet<Box<str>>,
    /// Pod CIDRs that writes of this lease term have named, by the UID of the Node.
    named: BTreeMap<Box<str>, BTreeSet<Cidr>>,
    pub(super) problems: Vec<PodCidrProblem>,
}

fn empty_allocator() -> Allocator {
    Allocator::from_pools(vec![
        Pool::new(cidr(RANGE), PREFIX_LEN, &[cidr(SERVICES)]).unwrap(),
    ])
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            uids: 0,
            api: BTreeMap::new(),
            writes: Vec::new(),
            store: BTreeMap::new(),
            events: VecDeque::new(),
            allocator: empty_allocator(),
            listed: BTreeMap::new(),
            gone: BTreeSet::new(),
            named: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn step(&mut self, step: Step) {
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
            Step::Remake(at, cidr) => {
                let is_there = self.api.contains_key(NODES[at % NODES.len()]);
                for _ in 0..=usize::from(is_there) {
                    self.step(Step::Toggle(at));
                }
                self.step(Step::Other(at, cidr));
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
                    self.forget(&write.name, write.change.uid);
                }
            }
            Step::Lose(at) if !self.writes.is_empty() => {
                self.writes.remove(at % self.writes.len());
            }
            Step::Arrive(..) | Step::Lose(_) => {}
            Step::FailOver { arriving, late } => self.fail_over(arriving, late),
        }
        self.check();
    }

    fn notify(&mut self, name: Arc<str>) {
        let node = self.api.get(&name).cloned();
        self.events.push_back((name, node));
    }

    /// Does what the event handler of the loop does.
    fn receive(&mut self) {
        let Some((name, node)) = self.events.pop_front() else {
            return;
        };
        if let Some(node) = node {
            // The list was newer.
            if self
                .listed
                .get(&name)
                .is_some_and(|listed| listed.uid != node.uid)
            {
                self.gone.insert(node.uid.clone());
            }
            self.problems.extend(self.allocator.observe(&node));
            self.store.insert(name, node);
        } else if let Some(node) = self.store.remove(&name) {
            self.forget(&name, node.uid);
        }
    }

    fn forget(&mut self, name: &str, uid: Box<str>) {
        self.allocator.forget(name, &uid);
        self.listed.retain(|_, node| node.uid != uid);
        self.gone.insert(uid);
    }

    /// Asks the API server for a Node that was listed and that the store does not show. Returns whether
    /// it may still come.
    fn awaits_store(&mut self, name: &str) -> bool {
        let Some(uid) = self.allocator.awaited(name).map(Box::<str>::from) else {
            return false;
        };
        if self.api.get(name).is_some_and(|node| node.uid == uid) {
            return true;
        }
        self.forget(name, uid);
        if let Some(node) = self.store.get(name) {
            self.problems.extend(self.allocator.observe(node));
        }
        false
    }

    fn reconcile(&mut self, name: &str) {
        if self.awaits_store(name) {
            return;
        }
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
        let plan = plan(node, None::<&[&str]>, &mut self.allocator);
        // Once more at most, if the API server said before the store that the Node is gone.
        assert!(
            plan.problems.is_empty() || self.gone.contains(&node.uid),
            "reported when it was observed"
        );
        match plan.step {
            PodCidrStep::Nothing => {
                let has_cidrs = |node: &NodeView| !node.pod_cidrs.is_empty();
                let listed = self.listed.get(name);
                assert!(has_cidrs(node) || listed.is_some_and(has_cidrs));
            }
            PodCidrStep::Write(change) => {
                let cidrs: Vec<_> = change.cidrs.iter().map(|text| cidr(text)).collect();
                let cidrs_present = self.present().flat_map(held).filter(is_nodes);
                let is_taken = |other: Cidr| cidrs.iter().any(|cidr| cidr.overlaps(other));
                let taken: Vec<_> = cidrs_present.filter(|other| is_taken(*other)).collect();
                assert!(
                    taken.is_empty(),
                    "{name} gets {cidrs:?}, though {taken:?} are Nodes'"
                );
                let named = self.named.entry(change.uid.clone()).or_default();
                named.extend(cidrs);
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

    /// Applies the write. Returns true if the Node was there.
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

    fn fail_over(&mut self, arriving: u8, late: u8) {
        for (at, mut write) in std::mem::take(&mut self.writes).into_iter().enumerate() {
            let is_in = |mask: u8| mask >> (at % 8) & 1 == 1;
            if is_in(late) {
                write.is_awaited = false;
                self.writes.push(write);
            } else if is_in(arriving) {
                self.arrive(&write);
            }
        }
        self.allocator = empty_allocator();
        self.named.clear();
        self.problems.clear();
        self.listed = self.api.clone();
        for node in self.listed.values() {
            self.problems.extend(self.allocator.observe_listed(node));
        }
        for node in self.store.values() {
            self.problems.extend(self.allocator.observe(node));
            if self
                .api
                .get(&node.name)
                .is_none_or(|live| live.uid != node.uid)
            {
                self.gone.insert(node.uid.clone());
            }
        }
    }

    /// Nodes that the leader knows, and that are not gone as far as it knows.
    fn present(&self) -> impl Iterator<Item = &NodeView> {
        let stored = self.store.values();
        let stored = stored.filter(|node| !self.gone.contains(&node.uid));
        stored.chain(self.listed.values())
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
        // Each Node without Pod CIDRs may hold one more, or all that writes have named for it: each may have been made. So
        // may one that is gone, until its deletion is received.
        let least = in_use(self.present().flat_map(held).filter(is_nodes).collect());
        let nodes = self.store.values().chain(self.listed.values());
        let most = in_use(nodes.flat_map(held).collect());
        let waiting = self
            .store
            .values()
            .filter(|node| node.pod_cidrs.is_empty())
            .map(|node| self.named.get(&node.uid).map_or(1, BTreeSet::len) as u64)
            .sum::<u64>();
        let used = size.total - size.free;
        assert!(
            least <= used && used <= most + waiting,
            "{least} {used} {most} {waiting}"
        );
    }

    /// Pairs of Nodes of the API server that have an address in common.
    pub(super) fn duplicates(&self) -> BTreeSet<(&str, &str)> {
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
    pub(super) fn settle(&mut self) {
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

pub(super) fn held(node: &NodeView) -> impl Iterator<Item = Cidr> {
    node.pod_cidrs.iter().filter_map(|cidr| Cidr::parse(cidr))
}

/// Returns true if it is no wider than a Node's.
fn is_nodes(cidr: &Cidr) -> bool {
    cidr.prefix_len() >= PREFIX_LEN
}
