//! Two Nodes, each of which may be made again, and as many Pod CIDRs, under two replicas of the node-ipam loop.
//!
//! | step of the model | function of `controller/loops/src/ipam` |
//! |---|---|
//! | the store's next event | `subscribe` |
//! | a term lists all Nodes | `NodeIpam::list`, from the API server itself |
//! | a term begins | `ControlLoop::begin` |
//! | the key is taken | `NodeIpam::sync`, `await_store`, with `ipam::plan` |
//! | the API server takes a write, its answer arrives | `NodeIpam::write`, `NodeWriter::settle` |
//!
//! A write of a term that has ended does not arrive after the next term's list: it may take
//! `core::lease::Durations::write_limit`. Stores lag behind the API server as they like.

use std::sync::Arc;

use outrigger_core::{
    cidr::Cidr,
    ipam::{Allocator, PodCidrStep, plan, pool::Pool},
    node::NodeView,
};
use serde_json::json;

use crate::{
    hashed::Hashed,
    scope::Scope,
    search::{Add, Model},
    store::Store,
};

const NAMES: [&str; 2] = ["n0", "n1"];
const CIDRS: [&str; 2] = ["10.0.0.0/32", "10.0.0.1/32"];

pub(crate) struct PodCidrs {
    scope: Scope,
    /// By name, generation and Pod CIDR, the first without one.
    views: [[[Arc<NodeView>; 3]; 2]; 2],
    allocator: Allocator,
}

/// A Node: which one of its name, and the place of its Pod CIDR.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    generation: usize,
    cidr: Option<usize>,
}

type Nodes = [Option<Node>; 2];

/// The watch delivers that a Node is so now.
#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    nodes: Nodes,
    /// By name: how many Nodes of it there were.
    generations: [usize; 2],
    leader: Store<Node>,
    standby: Store<Node>,
    term: Option<Hashed<Term>>,
}

#[derive(Clone, Debug)]
struct Term {
    allocator: Allocator,
    /// False before `begin`, when the event handlers do not see the state yet.
    has_begun: bool,
    keys: [Key; 2],
}

#[derive(Clone, Debug, Default)]
struct Key {
    is_due: bool,
    waits: bool,
    write: Option<Write>,
}

/// A write to the Node of this generation, and once the API server has decided, whether it took it.
#[derive(Clone, Copy, Debug)]
struct Write {
    to: Node,
    is_taken: Option<bool>,
}

impl PodCidrs {
    pub(crate) fn new(scope: Scope) -> Self {
        let view = |name: &str, generation: usize, cidr: usize| {
            let cidrs: Vec<_> = cidr
                .checked_sub(1)
                .map(|at| CIDRS[at])
                .into_iter()
                .collect();
            let node = json!({
                "metadata": {"name": name, "uid": format!("{name}-{generation}")},
                "spec": {"podCIDRs": cidrs},
            });
            Arc::new(serde_json::from_value(node).unwrap())
        };
        let range = Cidr::parse("10.0.0.0/31").unwrap();
        Self {
            scope,
            views: std::array::from_fn(|name| {
                std::array::from_fn(|generation| {
                    std::array::from_fn(|cidr| view(NAMES[name], generation, cidr))
                })
            }),
            allocator: Allocator::from_pools(vec![Pool::new(range, 32, &[]).unwrap()]),
        }
    }

    fn view(&self, name: usize, node: Node) -> &Arc<NodeView> {
        &self.views[name][node.generation][node.cidr.map_or(0, |cidr| cidr + 1)]
    }

    fn edits(state: &State, add: &mut Add<'_, State>) {
        for (name, word) in NAMES.iter().enumerate() {
            let mut after = state.clone();
            after.left.edits -= 1;
            match state.nodes[name] {
                Some(_) => {
                    after.set(name, None);
                    add(format_args!("{word} is deleted"), after);
                }
                None if state.generations[name] < 2 => {
                    let generation = state.generations[name];
                    after.generations[name] += 1;
                    after.set(
                        name,
                        Some(Node {
                            generation,
                            cidr: None,
                        }),
                    );
                    add(format_args!("{word} registers"), after);
                }
                None => {}
            }
        }
    }

    fn in_term<T>(state: &mut State, act: impl FnOnce(&mut Term, &mut State) -> T) -> Option<T> {
        let mut term = Term::clone(&*state.term.take()?);
        let result = act(&mut term, state);
        state.term = Some(Hashed::new(term));
        Some(result)
    }

    /// The store of the leader has another state of a Node: the event handlers.
    fn changed(&self, state: &mut State, name: usize, old: Option<Node>) {
        let new = state.leader.held[name];
        Self::in_term(state, |term, _| {
            if let Some(old) =
                old.filter(|old| new.is_none_or(|new| new.generation != old.generation))
            {
                term.forget(&self.view(name, old).uid, name);
            }
            match new {
                Some(node) => {
                    let is_due = term.has_begun && term.observe(self, name, node);
                    term.keys[name].is_due |= is_due || node.cidr.is_none();
                }
                None => term.keys[name].is_due = false,
            }
        });
    }

    /// Another replica leads, or the same one again; in a new process the store is listed.
    fn lists(&self, state: &mut State) {
        let mut allocator = self.allocator.clone();
        for (name, node) in state.nodes.iter().enumerate() {
            if let Some(node) = node {
                allocator.observe_listed(self.view(name, *node));
            }
        }
        state.term = Some(Hashed::new(Term {
            allocator,
            has_begun: false,
            keys: Default::default(),
        }));
    }

    fn begins(&self, term: &mut Term, state: &State) {
        term.has_begun = true;
        for (name, node) in state.leader.held.iter().enumerate() {
            if let Some(node) = *node {
                let is_due = term.observe(self, name, node);
                term.keys[name].is_due |= is_due || node.cidr.is_none();
            }
            term.keys[name].is_due |= term.allocator.awaited(NAMES[name]).is_some();
        }
    }

    /// `NodeIpam::sync`.
    fn take(&self, term: &mut Term, state: &State, name: usize) {
        term.keys[name].is_due = false;
        if let Some(node) = state.leader.held[name] {
            term.observe(self, name, node);
        }
        if let Some(uid) = term.allocator.awaited(NAMES[name]).map(ToOwned::to_owned) {
            let live = state.nodes[name].map(|node| self.view(name, node));
            if live.is_some_and(|live| *live.uid == *uid) {
                term.keys[name].is_due = true;
                return;
            }
            term.forget(&uid, name);
            if let Some(node) = state.leader.held[name] {
                term.observe(self, name, node);
            }
        }
        let Some(node) = state.leader.held[name] else {
            return;
        };
        let planned = plan(self.view(name, node), None::<&[&str]>, &mut term.allocator);
        term.keys[name].waits = matches!(planned.step, PodCidrStep::Wait(_));
        if let PodCidrStep::Write(write) = planned.step {
            let cidr = CIDRS.iter().position(|cidr| **cidr == *write.cidrs[0]);
            let to = Node { cidr, ..node };
            term.keys[name].write = Some(Write { to, is_taken: None });
        }
    }

    /// `NodeIpam::write`, once the API server has answered.
    fn written(&self, state: &mut State, name: usize, write: Write) {
        let before = state.leader.held[name];
        let live = state.nodes[name].filter(|live| live.generation == write.to.generation);
        Self::in_term(state, |term, _| {
            term.keys[name].write = None;
            if write.is_taken == Some(false) && live.is_none() {
                term.forget(&self.view(name, write.to).uid, name);
            }
        });
        // A refused write looks at the Node; the store takes both in, unless it has something later.
        let shown = if write.is_taken == Some(true) {
            Some(write.to)
        } else {
            live
        };
        let is_same = |held: Node| {
            shown.is_some_and(|shown| shown.generation == held.generation && shown > held)
        };
        if before.is_some_and(is_same) {
            state.leader.held[name] = shown;
            self.changed(state, name, before);
        }
    }
}

impl Term {
    /// `IpamState::observe`, of the Node as the store has it.
    fn observe(&mut self, model: &PodCidrs, name: usize, node: Node) -> bool {
        let problems = self.allocator.observe(model.view(name, node));
        !problems.is_empty() || self.allocator.awaited(NAMES[name]).is_some()
    }

    /// `IpamState::forget`: Nodes that wait are tried again.
    fn forget(&mut self, uid: &str, name: usize) {
        if self.has_begun {
            self.allocator.forget(NAMES[name], uid);
            for key in &mut self.keys {
                key.is_due |= std::mem::take(&mut key.waits);
            }
        }
    }
}

impl State {
    fn set(&mut self, name: usize, node: Option<Node>) {
        self.nodes[name] = node;
        self.leader.send(name, node);
        self.standby.send(name, node);
    }
}

/// A Node is never what it was before.
fn is_old(new: Node, held: Node) -> bool {
    new <= held
}

impl Model for PodCidrs {
    type State = State;

    /// One Node, and two.
    fn begin(&self) -> Vec<State> {
        let node = Some(Node {
            generation: 0,
            cidr: None,
        });
        let state = |nodes: Nodes| State {
            left: self.scope,
            nodes,
            generations: nodes.map(|node| usize::from(node.is_some())),
            leader: Store::listed(nodes),
            standby: Store::listed(nodes),
            term: None,
        };
        vec![state([node, None]), state([node, node])]
    }

    fn steps(&self, state: &State, add: &mut Add<'_, State>) {
        if state.leader.has_next() {
            let mut after = state.clone();
            let event = after.leader.next(is_old);
            if event.is_news {
                self.changed(&mut after, event.name, event.old);
            }
            add(format_args!("the leader's store has the next event"), after);
        }
        let Some(term) = &state.term else {
            for (who, swaps) in [("same", false), ("other", true)] {
                let mut after = state.clone();
                if swaps {
                    std::mem::swap(&mut after.leader, &mut after.standby);
                }
                self.lists(&mut after);
                add(format_args!("the {who} replica leads and lists"), after);
            }
            return;
        };
        if !term.has_begun {
            let mut after = state.clone();
            Self::in_term(&mut after, |term, state| self.begins(term, state));
            add(format_args!("the term begins"), after);
        }
        for (name, word) in NAMES.iter().enumerate() {
            let key = &term.keys[name];
            match key.write {
                Some(Write { to, is_taken: None }) => {
                    let mut after = state.clone();
                    let free = Node { cidr: None, ..to };
                    let is_taken = Some(state.nodes[name] == Some(free));
                    if is_taken == Some(true) {
                        after.set(name, Some(to));
                    }
                    Self::in_term(&mut after, |term, _| {
                        term.keys[name].write = Some(Write { to, is_taken });
                    });
                    add(
                        format_args!(
                            "the API server decides about {to:?} for {word}: {is_taken:?}"
                        ),
                        after,
                    );
                }
                Some(write) => {
                    let mut after = state.clone();
                    self.written(&mut after, name, write);
                    add(format_args!("the answer about {word} arrives"), after);
                }
                None if key.is_due && term.has_begun => {
                    let mut after = state.clone();
                    Self::in_term(&mut after, |term, state| self.take(term, state, name));
                    add(format_args!("the key of {word} is taken"), after);
                }
                None => {}
            }
            if key.write.is_some() && state.left.lost_answers > 0 {
                let mut after = state.clone();
                after.left.lost_answers -= 1;
                Self::in_term(&mut after, |term, _| {
                    term.keys[name].write = None;
                    term.keys[name].is_due = true;
                });
                add(format_args!("the answer about {word} is lost"), after);
            }
        }
        if state.standby.has_next() {
            let mut after = state.clone();
            after.standby.next(is_old);
            add(
                format_args!("the standby's store has the next event"),
                after,
            );
        }
        if state.left.edits > 0 {
            Self::edits(state, add);
        }
        if state.left.crashes > 0 {
            let mut after = state.clone();
            after.left.crashes -= 1;
            after.term = None;
            after.leader = Store::listed(state.nodes);
            add(
                format_args!("the leader dies, and its successor lists"),
                after,
            );
        }
        if state.left.leader_changes > 0 {
            let mut after = state.clone();
            after.left.leader_changes -= 1;
            std::mem::swap(&mut after.leader, &mut after.standby);
            self.lists(&mut after);
            add(format_args!("the other replica leads and lists"), after);
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        match state.nodes {
            [
                Some(Node {
                    cidr: Some(one), ..
                }),
                Some(Node {
                    cidr: Some(other), ..
                }),
            ] if one == other => Some("two Nodes have one Pod CIDR"),
            _ => None,
        }
    }

    fn calm(&self, state: &State) -> State {
        State {
            left: Scope::NONE,
            ..state.clone()
        }
    }

    fn missing(&self, state: &State) -> Option<&'static str> {
        let lacks = |node: &Node| node.cidr.is_none();
        let is_missing = state.nodes.iter().flatten().any(lacks);
        is_missing.then_some("a Node has no Pod CIDR")
    }
}
