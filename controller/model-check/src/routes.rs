//! Two Nodes, each of which may be made again with either Pod CIDR, under two replicas of the node-route loop.
//!
//! | step of the model | function of `controller/loops/src/route` |
//! |---|---|
//! | the store's next event | `subscribe`, `RouteState::observe`, `forget` |
//! | a list begins, is answered, is complete | `RouteLists::list_once`; the first one is followed by `begin` |
//! | the key is taken, or goes on | `RouteReconciler::carry_out`, with `route::plan` |
//! | the API server is asked, its answer arrives | `NodeConfirmer::confirm`, `Question::shows`, `denies` |
//! | the cloud does a call, its answer arrives or is lost | `create`, `delete`, `not_created`, `not_deleted` |
//!
//! A call of a term that has ended changes the cloud no more. A stale read is a list of routes from before the last change.

use std::sync::Arc;

use outrigger_core::{
    cidr::Cidr,
    node::{
        NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{
        Confirmation, ListStart, ObservedRoute, RawRoute, RouteFacts, RouteNodes, RouteRange,
        RouteStep, RouteTable, WantedRoute, plan,
    },
};
use serde_json::json;

use crate::{
    hashed::Hashed,
    scope::Scope,
    search::{Add, Model},
    store::Store,
};

const NAMES: [&str; 2] = ["n0", "n1"];
const CIDRS: [&str; 2] = ["10.244.0.0/24", "10.244.1.0/24"];

pub(crate) struct Routes {
    scope: Scope,
    prefixes: Prefixes,
    ranges: [RouteRange; 1],
    cidrs: [Cidr; 2],
    /// By name, generation and Pod CIDR.
    views: [[[Arc<NodeView>; 2]; 2]; 2],
}

/// A Node: which one of its name, and the place of its Pod CIDR.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    generation: usize,
    cidr: usize,
}

type Nodes = [Option<Node>; 2];

/// By Pod CIDR: name and generation of the Node that the route leads to.
type Cloud = [Option<(usize, usize)>; 2];

#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    nodes: Nodes,
    generations: [usize; 2],
    cloud: Cloud,
    /// Before its last change.
    cloud_before: Cloud,
    leader: Store<Node>,
    standby: Store<Node>,
    term: Option<Hashed<Term>>,
    violation: Option<&'static str>,
    is_calm: bool,
}

#[derive(Clone, Debug, Default)]
struct Term {
    table: RouteTable,
    nodes: RouteNodes,
    has_begun: bool,
    list: Option<(ListStart, Option<Cloud>)>,
    /// Nodes that were deleted while a question to the API server is open.
    deleted_since: Vec<Box<str>>,
    keys: [Key; 2],
}

#[derive(Clone, Debug, Default)]
struct Key {
    is_due: bool,
    /// The state of the run that goes on.
    confirmed: Vec<Confirmation>,
    is_made: bool,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Rest,
    List,
    /// With the Nodes that the API server has shown, once it has.
    Confirm {
        question: Confirmation,
        shown: Option<Nodes>,
    },
    /// With how the call ended, once the cloud has acted: false if another route is in the way.
    Called {
        call: Call,
        is_done: Option<bool>,
    },
}

#[derive(Clone, Debug)]
enum Call {
    Create(WantedRoute),
    Delete(ObservedRoute),
}

impl Routes {
    pub(crate) fn new(scope: Scope) -> Self {
        let view = |name: &str, generation: usize, cidr: usize| {
            let node = json!({
                "metadata": {
                    "name": name, "uid": format!("{name}-{generation}"),
                    "creationTimestamp": format!("2026-01-0{}T00:00:00Z", generation + 1),
                },
                "spec": {"podCIDRs": [CIDRS[cidr]], "providerID": format!("mock://{name}-{generation}")},
                "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
            });
            Arc::new(serde_json::from_value(node).unwrap())
        };
        let cidr = |text| Cidr::parse(text).unwrap();
        Self {
            scope,
            prefixes: Prefixes::new("mock", [] as [&str; 0]).unwrap(),
            ranges: [RouteRange {
                cidr: cidr("10.244.0.0/16"),
                node_prefix: Some(24),
            }],
            cidrs: CIDRS.map(cidr),
            views: std::array::from_fn(|name| {
                std::array::from_fn(|generation| {
                    std::array::from_fn(|cidr| view(NAMES[name], generation, cidr))
                })
            }),
        }
    }

    fn view(&self, name: usize, node: Node) -> &Arc<NodeView> {
        &self.views[name][node.generation][node.cidr]
    }

    /// A route as the provider shows it.
    fn route(cidr: usize, (name, generation): (usize, usize)) -> ObservedRoute {
        let raw = RawRoute {
            destination_cidr: CIDRS[cidr].to_owned(),
            node_name: NAMES[name].to_owned(),
            provider_id: format!("mock://{}-{generation}", NAMES[name]),
            ..RawRoute::default()
        };
        raw.check().unwrap()
    }

    /// The name and generation in a provider ID.
    fn target(provider_id: &str) -> (usize, usize) {
        let id = provider_id.trim_start_matches("mock://");
        let name = NAMES.iter().position(|name| id.starts_with(name));
        (name.unwrap(), usize::from(id.ends_with('1')))
    }

    fn step_for(&self, term: &Term, at: usize) -> RouteStep {
        let facts = RouteFacts {
            table: &term.table,
            nodes: &term.nodes,
            is_synced: true,
            confirmed: &term.keys[at].confirmed,
            scope: NodeScope {
                prefixes: &self.prefixes,
                selector: None,
                foreign_prefix_seen: false,
            },
            without_provider_id: false,
            ranges: &self.ranges,
        };
        plan(self.cidrs[at], &facts).step
    }

    fn queue(&self, term: &mut Term, destinations: impl IntoIterator<Item = Cidr>) {
        for destination in destinations {
            let at = self
                .cidrs
                .iter()
                .position(|cidr| *cidr == destination)
                .unwrap();
            term.keys[at].is_due = true;
        }
    }

    fn in_term(state: &mut State, act: impl FnOnce(&mut Term, &mut State)) {
        if let Some(term) = state.term.take() {
            let mut term = Term::clone(&term);
            act(&mut term, state);
            state.term = Some(Hashed::new(term));
        }
    }

    /// The store of the leader has another Node, or none: the event handlers.
    fn changed(&self, state: &mut State, name: usize, old: Option<Node>) {
        Self::in_term(state, |term, state| {
            if !term.has_begun {
                return;
            }
            let new = state.leader.held[name];
            if let Some(old) =
                old.filter(|old| new.is_none_or(|new| new.generation != old.generation))
            {
                let uid = &self.view(name, old).uid;
                if term
                    .keys
                    .iter()
                    .any(|key| matches!(key.stage, Stage::Confirm { .. }))
                {
                    term.deleted_since.push(uid.clone());
                }
                let due = term.nodes.forget(NAMES[name], uid);
                self.queue(term, due);
            }
            if let Some(new) = new {
                let due = term.nodes.observe(self.view(name, new));
                self.queue(term, due);
            }
        });
    }

    /// `ControlLoop::begin`.
    fn begins(&self, term: &mut Term, state: &State) {
        term.has_begun = true;
        for (name, node) in state.leader.held.iter().enumerate() {
            if let Some(node) = node {
                term.nodes.observe(self.view(name, *node));
            }
        }
        for key in &mut term.keys {
            key.is_due = true;
        }
    }

    /// The end of `RouteLists::list_once`.
    fn listed(&self, term: &mut Term, state: &State, start: ListStart, cloud: Cloud) {
        term.list = None;
        let routes = cloud.iter().enumerate();
        let routes = routes.filter_map(|(cidr, target)| Some(Self::route(cidr, (*target)?)));
        let mut due = term.table.list_completed(start, routes);
        term.nodes.add_overlapping(&mut due);
        if !term.has_begun {
            return self.begins(term, state);
        }
        for (name, held) in state.leader.held.iter().enumerate() {
            let shown = term.nodes.get(NAMES[name]).map(|node| node.uid.clone());
            let held = held.map(|node| &self.view(name, node).uid);
            if let Some(shown) = shown.filter(|shown| Some(shown) != held) {
                due.extend(term.nodes.forget(NAMES[name], &shown));
            }
        }
        self.queue(term, due);
        for (at, key) in term.keys.iter_mut().enumerate() {
            if matches!(key.stage, Stage::List) && !term.table.needs_list(self.cidrs[at]) {
                key.stage = Stage::Rest;
                key.is_due = true;
            }
        }
    }

    /// `RouteReconciler::carry_out`, one step of it.
    fn take(&self, term: &mut Term, at: usize) {
        term.keys[at].is_due = false;
        let step = self.step_for(term, at);
        let key = &mut term.keys[at];
        match step {
            RouteStep::Nothing => key.ends(false),
            RouteStep::Keep => {
                term.table.keep(self.cidrs[at], &term.nodes);
                key.ends(false);
            }
            _ if key.is_made => key.ends(true),
            RouteStep::List => key.stage = Stage::List,
            RouteStep::Confirm(question) => {
                key.stage = Stage::Confirm {
                    question,
                    shown: None,
                }
            }
            RouteStep::Delete(route) => {
                key.stage = Stage::Called {
                    call: Call::Delete(route),
                    is_done: None,
                };
                term.table.call_begins(self.cidrs[at]);
            }
            RouteStep::Create(route) => {
                key.is_made = true;
                key.stage = Stage::Called {
                    call: Call::Create(route),
                    is_done: None,
                };
                term.table.call_begins(self.cidrs[at]);
            }
        }
    }

    /// The end of `NodeConfirmer::confirm`.
    fn confirmed(&self, term: &mut Term, at: usize, question: &Confirmation, shown: Nodes) {
        for (name, node) in shown.into_iter().enumerate() {
            let is_asked = match question {
                Confirmation::Node(name_in_question) => **name_in_question == *NAMES[name],
                Confirmation::AllNodes => node.is_some(),
            };
            let due = match node.map(|node| self.view(name, node)) {
                _ if !is_asked => continue,
                Some(live) if term.deleted_since.contains(&live.uid) => continue,
                Some(live) => term.nodes.observe(live),
                None => match term.nodes.get(NAMES[name]).cloned() {
                    Some(node) => term.nodes.forget(NAMES[name], &node.uid),
                    None => continue,
                },
            };
            let others = due.into_iter().filter(|other| *other != self.cidrs[at]);
            self.queue(term, others.collect::<Vec<_>>());
        }
        let key = &mut term.keys[at];
        key.confirmed.push(question.clone());
        key.stage = Stage::Rest;
        key.is_due = true;
        if !term
            .keys
            .iter()
            .any(|key| matches!(key.stage, Stage::Confirm { .. }))
        {
            term.deleted_since.clear();
        }
    }

    /// The provider does what the call asks for.
    fn cloud_acts(state: &mut State, at: usize, call: &Call) -> bool {
        let before = state.cloud;
        let is_done = match call {
            Call::Create(route) => {
                let target = Self::target(&route.provider_id);
                *state.cloud[at].get_or_insert(target) == target
            }
            Call::Delete(route) => {
                let (name, generation) = Self::target(&route.raw().provider_id);
                let is_there = state.nodes[name]
                    == Some(Node {
                        generation,
                        cidr: at,
                    });
                if state.cloud[at] == Some((name, generation)) {
                    state.cloud[at] = None;
                    if is_there {
                        state.violation = Some("a route is deleted whose Node is there");
                    }
                }
                true
            }
        };
        if state.cloud != before {
            state.cloud_before = before;
        }
        is_done
    }

    /// The end of `create` and `delete`; none: the answer was lost.
    fn answered(&self, term: &mut Term, at: usize, call: &Call, is_done: Option<bool>) {
        match (call, is_done) {
            (Call::Create(route), Some(true)) => {
                let shown = Self::route(at, Self::target(&route.provider_id));
                term.table.created(route, shown);
            }
            (Call::Create(_), Some(false)) => term.table.conflicts(self.cidrs[at]),
            (Call::Create(route), None) => term.table.created_perhaps(route),
            (Call::Delete(route), Some(_)) => term.table.deleted(route),
            (Call::Delete(_), None) => term.table.result_unknown(self.cidrs[at]),
        }
        let key = &mut term.keys[at];
        key.stage = Stage::Rest;
        key.is_due = true;
        if is_done != Some(true) {
            key.ends(true);
        }
    }
}

impl Key {
    /// The run is over.
    fn ends(&mut self, is_due: bool) {
        *self = Self {
            is_due: self.is_due || is_due,
            ..Self::default()
        };
    }
}

impl State {
    fn set(&mut self, name: usize, node: Option<Node>) {
        self.nodes[name] = node;
        self.leader.send(name, node);
        self.standby.send(name, node);
    }

    fn begin_term(&mut self) {
        let mut term = Term::default();
        term.list = Some((term.table.list_begins(), None));
        self.term = Some(Hashed::new(term));
    }
}

impl Model for Routes {
    type State = State;

    /// Both Nodes have just registered, with nothing in the cloud, or with their routes.
    fn begin(&self) -> Vec<State> {
        let nodes = [0, 1].map(|cidr| {
            Some(Node {
                generation: 0,
                cidr,
            })
        });
        let store = Store::listed(nodes);
        let state = |cloud| State {
            left: self.scope,
            nodes,
            generations: [1, 1],
            cloud,
            cloud_before: cloud,
            leader: store.clone(),
            standby: store.clone(),
            term: None,
            violation: None,
            is_calm: false,
        };
        vec![state([None, None]), state([Some((0, 0)), Some((1, 0))])]
    }

    fn steps(&self, state: &State, add: &mut Add<'_, State>) {
        if state.leader.has_next() {
            let mut after = state.clone();
            // This loop writes no Node, so that each event is news.
            let event = after.leader.next(|_, _| false);
            self.changed(&mut after, event.name, event.old);
            add(format_args!("the leader's store has the next event"), after);
        }
        let Some(term) = &state.term else {
            for (who, swaps) in [("same", false), ("other", true)] {
                let mut after = state.clone();
                if swaps {
                    std::mem::swap(&mut after.leader, &mut after.standby);
                }
                after.begin_term();
                add(format_args!("the {who} replica leads"), after);
            }
            return;
        };
        let mut step = |words: std::fmt::Arguments<'_>, act: &dyn Fn(&mut Term, &mut State)| {
            let mut after = state.clone();
            Self::in_term(&mut after, act);
            add(words, after);
        };
        match term.list {
            Some((start, None)) => {
                step(
                    format_args!("the provider lists the routes"),
                    &|term, state| {
                        term.list = Some((start, Some(state.cloud)));
                    },
                );
                if state.left.stale_reads > 0 && state.cloud != state.cloud_before {
                    step(
                        format_args!("the provider lists the routes of before"),
                        &|term, state| {
                            state.left.stale_reads -= 1;
                            term.list = Some((start, Some(state.cloud_before)));
                        },
                    );
                }
            }
            Some((start, Some(cloud))) => {
                step(
                    format_args!("the list is complete: {cloud:?}"),
                    &|term, state| {
                        self.listed(term, state, start, cloud);
                    },
                );
            }
            None => {
                let waits = term.keys.iter().any(|key| matches!(key.stage, Stage::List));
                if waits || state.left.stale_reads > 0 {
                    step(format_args!("a list of routes begins"), &|term, state| {
                        state.left.stale_reads -= u8::from(!waits);
                        term.list = Some((term.table.list_begins(), None));
                    });
                }
            }
        }
        let may_lose = state.left.lost_answers > 0;
        for (at, word) in CIDRS.iter().enumerate() {
            let key = &term.keys[at];
            match &key.stage {
                Stage::Rest if key.is_due && term.has_begun => {
                    step(format_args!("the key of {word} is taken"), &|term, _| {
                        self.take(term, at);
                    });
                }
                Stage::Rest | Stage::List => {}
                Stage::Confirm {
                    question,
                    shown: None,
                } => {
                    step(
                        format_args!("the API server answers {question:?}"),
                        &|term, state| {
                            let (question, shown) = (question.clone(), Some(state.nodes));
                            term.keys[at].stage = Stage::Confirm { question, shown };
                        },
                    );
                }
                Stage::Confirm {
                    question,
                    shown: Some(shown),
                } => {
                    step(
                        format_args!("the answer to {question:?} arrives"),
                        &|term, _| {
                            self.confirmed(term, at, question, *shown);
                        },
                    );
                }
                Stage::Called {
                    call,
                    is_done: None,
                } => {
                    let verb = call.verb();
                    step(
                        format_args!("the cloud does {verb} {word}"),
                        &|term, state| {
                            let is_done = Some(Self::cloud_acts(state, at, call));
                            term.keys[at].stage = Stage::Called {
                                call: call.clone(),
                                is_done,
                            };
                        },
                    );
                }
                Stage::Called { call, is_done } => {
                    let verb = call.verb();
                    step(
                        format_args!("{verb} {word} is answered: {is_done:?}"),
                        &|term, _| {
                            self.answered(term, at, call, *is_done);
                        },
                    );
                }
            }
            if let Stage::Called { call, .. } = &key.stage
                && may_lose
            {
                let verb = call.verb();
                step(
                    format_args!("the answer to {verb} {word} is lost"),
                    &|term, state| {
                        state.left.lost_answers -= 1;
                        self.answered(term, at, call, None);
                    },
                );
            }
        }
        let differs = |(at, route): (usize, &Option<_>)| {
            term.table.at(self.cidrs[at]).is_empty() == route.is_some()
        };
        if state.is_calm && term.list.is_none() && state.cloud.iter().enumerate().any(differs) {
            step(format_args!("the list of a period begins"), &|term, _| {
                term.list = Some((term.table.list_begins(), None));
            });
        }
        if state.standby.has_next() {
            let mut after = state.clone();
            after.standby.next(|_, _| false);
            add(
                format_args!("the standby's store has the next event"),
                after,
            );
        }
        if state.left.edits > 0 {
            for (name, word) in NAMES.iter().enumerate() {
                let mut after = state.clone();
                after.left.edits -= 1;
                if state.nodes[name].is_some() {
                    after.set(name, None);
                    add(format_args!("{word} is deleted"), after);
                } else if state.generations[name] < 2 {
                    for (cidr, pods) in CIDRS.iter().enumerate() {
                        if state.nodes.iter().flatten().all(|node| node.cidr != cidr) {
                            let mut after = after.clone();
                            let generation = state.generations[name];
                            after.generations[name] += 1;
                            after.set(name, Some(Node { generation, cidr }));
                            add(format_args!("{word} registers with {pods}"), after);
                        }
                    }
                }
            }
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
            after.begin_term();
            add(format_args!("the other replica leads"), after);
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        state.violation
    }

    fn calm(&self, state: &State) -> State {
        State {
            left: Scope::NONE,
            is_calm: true,
            ..state.clone()
        }
    }

    fn missing(&self, state: &State) -> Option<&'static str> {
        for (cidr, route) in state.cloud.iter().enumerate() {
            let nodes = state.nodes.iter().enumerate();
            let mut targets = nodes.filter_map(|(name, node)| {
                node.filter(|node| node.cidr == cidr)
                    .map(|node| (name, node.generation))
            });
            match (targets.next(), route) {
                (Some(target), Some(route)) if target == *route => {}
                (None, None) => {}
                (Some(_), _) => return Some("a Node has no route, or a route leads to another"),
                (None, Some(_)) => return Some("a route stays whose Node is gone"),
            }
        }
        None
    }
}

impl Call {
    const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Delete(_) => "delete",
        }
    }
}
