//! Two Nodes and their machines under two replicas of the cloud-node-lifecycle loop, with one provider.
//!
//! | step of the model | function of `controller/loops/src/lifecycle` |
//! |---|---|
//! | the store's next event | `subscribe` |
//! | the key is taken | `NodeLifecycle::sync`, with `Lifecycle::check` |
//! | the provider looks, its answer arrives or is lost | `ask`, with `Lifecycle::answered` |
//! | another loop's answer | `on_lookup`, with `Lifecycle::observed` |
//! | the last look | `act::delete`, with `Lifecycle::last_look`; `take_out_of_service`, with `last_look_at_stop` |
//! | the API server takes a write or a deletion, its answer arrives | `act`, `NodeWriter::settle`, `delete` |
//!
//! Time passes in monitor periods, also while requests are on their way. The provider says at most once that an
//! instance is absent or stopped which is not: two such answers in a row are more than the loop can tell from the truth.
//! A machine that is started again may be taken out of service by an answer from before, as long as its Node is not ready.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_core::node::{
    NodeView, OUT_OF_SERVICE_VALUE, Ready, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN,
    change::TaintAddition,
    deletion_limit::DeletionLimits,
    instance::{Instance, Lookup, PowerState},
    lifecycle::{Check, Deletion, Lifecycle, LifecycleAction, LifecycleFacts},
    ownership::{NodeScope, Prefixes},
};
use serde_json::json;

use crate::{
    hashed::Hashed,
    scope::Scope,
    search::{Add, Model},
    store::Store,
};

const NAMES: [&str; 2] = ["n0", "n1"];
const PERIOD: Duration = Duration::from_secs(5);
/// Periods in which faults happen.
const HORIZON: u8 = 4;

pub(crate) struct Nodes {
    scope: Scope,
    prefixes: Prefixes,
    limits: DeletionLimits,
    base: [NodeView; 2],
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Machine {
    Running,
    Stopped,
    /// Running again.
    Started,
    Gone,
}

impl Machine {
    const fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Started)
    }
}

/// A Node object.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that change independently"
)]
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Node {
    version: u16,
    is_ready: bool,
    /// The period in which the condition became so.
    since: u8,
    is_tainted: bool,
    is_out_of_service: bool,
    /// By an operator.
    is_confirmed: bool,
}

#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    now: u8,
    machines: [Machine; 2],
    nodes: [Option<Node>; 2],
    versions: u16,
    leader: Store<Node>,
    standby: Store<Node>,
    term: Option<Hashed<Term>>,
    late: Vec<Request>,
    violation: Option<&'static str>,
    /// Without a further fault no time passes but that of the waits.
    is_calm: bool,
}

#[derive(Clone, Debug)]
struct Term {
    lifecycle: Lifecycle,
    keys: [Key; 2],
}

#[derive(Clone, Debug, Default)]
struct Key {
    is_due: bool,
    until: Option<Timestamp>,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Rest,
    /// The provider was asked about the Node as it was; with its answer, once it has looked.
    Asked { node: Node, answer: Option<Lookup> },
    /// Before `last_look`.
    Deleting { node: Node, deletion: Deletion },
    /// Before `last_look_at_stop`.
    TakingOut { node: Node, taint: TaintAddition },
    /// A request to the API server, and once it has decided, whether it did it.
    Sent {
        request: Request,
        is_done: Option<bool>,
    },
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Request {
    /// With UID and resourceVersion as preconditions.
    Delete { name: usize, version: u16 },
    /// Adds the taint of a stopped instance, or removes all.
    Taint { name: usize, adds: bool },
    /// With UID and resourceVersion as preconditions.
    OutOfService { name: usize, version: u16 },
}

impl Nodes {
    pub(crate) fn new(scope: Scope) -> Self {
        let base = |name: &str| {
            let node = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "1969-12-31T00:00:00Z"},
                "spec": {"providerID": format!("mock://{name}")},
            });
            serde_json::from_value(node).unwrap()
        };
        Self {
            scope: Scope {
                stale_reads: scope.stale_reads.min(1),
                ..scope
            },
            prefixes: Prefixes::new("mock", [] as [&str; 0]).unwrap(),
            limits: DeletionLimits {
                burst: 1,
                window: 2 * PERIOD,
                period: PERIOD,
                ..DeletionLimits::default()
            },
            base: NAMES.map(base),
        }
    }

    fn view(&self, name: usize, node: Node) -> NodeView {
        let labels = node.is_confirmed.then_some((
            "outrigger.dev.node-restriction.kubernetes.io/confirm-deletion",
            "true",
        ));
        let shutdown = json!({"key": TAINT_SHUTDOWN, "effect": "NoSchedule"});
        let out_of_service = json!({"key": TAINT_OUT_OF_SERVICE, "value": OUT_OF_SERVICE_VALUE, "effect": "NoExecute"});
        let taints = [
            (node.is_tainted, shutdown),
            (node.is_out_of_service, out_of_service),
        ];
        let taints = taints.into_iter().filter(|(is_there, _)| *is_there);
        let taints = taints.map(|(_, taint)| serde_json::from_value(taint).unwrap());
        NodeView {
            resource_version: node.version.to_string().into(),
            ready: if node.is_ready {
                Ready::True
            } else {
                Ready::Unknown
            },
            ready_since: Some(time(node.since)),
            labels: labels.into_iter().collect(),
            taints: taints.collect(),
            ..self.base[name].clone()
        }
    }

    fn facts(&self, state: &State) -> LifecycleFacts<'_> {
        LifecycleFacts {
            scope: NodeScope {
                prefixes: &self.prefixes,
                selector: None,
                foreign_prefix_seen: false,
            },
            nodes: state.leader.held.iter().flatten().count(),
            visibility_delay: Duration::ZERO,
            time_of_day: time(state.now),
            out_of_service_after: PERIOD,
            not_managed: false,
        }
    }

    fn in_term(state: &mut State, act: impl FnOnce(&mut Term, &mut State)) {
        if let Some(term) = state.term.take() {
            let mut term = Term::clone(&term);
            act(&mut term, state);
            state.term = Some(Hashed::new(term));
        }
    }

    /// The store of the leader has another state of a Node: the event handlers.
    fn changed(state: &mut State, name: usize, old: Option<Node>, is_own: bool) {
        let new = state.leader.held[name];
        Self::in_term(state, |term, state| {
            let key = &mut term.keys[name];
            let concerns = |node: Node| !node.is_ready || node.is_tainted || node.is_out_of_service;
            match (old, new) {
                (_, None) => {
                    term.lifecycle.removed(time(state.now), NAMES[name]);
                    key.is_due = false;
                    key.until = None;
                }
                (Some(_), Some(_)) if is_own => {}
                (Some(old), Some(new)) => key.is_due |= !old.is_ready || concerns(new),
                (None, Some(_)) => key.is_due = true,
            }
        });
    }

    fn begins(&self, state: &mut State) {
        let mut keys: [Key; 2] = Default::default();
        for (key, held) in keys.iter_mut().zip(state.leader.held) {
            key.is_due = held.is_some();
        }
        let lifecycle = Lifecycle::new(self.limits.clone());
        state.term = Some(Hashed::new(Term { lifecycle, keys }));
    }

    /// The present answer of the cloud about a machine.
    fn lookup(&self, state: &State, name: usize) -> Lookup {
        let power_state = match state.machines[name] {
            Machine::Running | Machine::Started => PowerState::Running,
            Machine::Stopped => PowerState::Shutdown,
            Machine::Gone => return Lookup::Absent { confirmed: true },
        };
        self.found(name, power_state)
    }

    fn found(&self, name: usize, power_state: PowerState) -> Lookup {
        Lookup::Found(Box::new(Instance {
            provider_id: self.base[name].provider_id.clone(),
            power_state,
            ..Instance::default()
        }))
    }

    /// `NodeLifecycle::sync`.
    fn take(&self, term: &mut Term, state: &State, name: usize) {
        let key = &mut term.keys[name];
        key.is_due = false;
        key.until = None;
        let Some(node) = state.leader.held[name] else {
            return;
        };
        match term
            .lifecycle
            .check(time(state.now), &self.view(name, node), &self.facts(state))
        {
            Check::Ask => key.stage = Stage::Asked { node, answer: None },
            Check::At(until) => key.until = Some(until),
            Check::RemoveTaints(_) => {
                let request = Request::Taint { name, adds: false };
                key.stage = Stage::Sent {
                    request,
                    is_done: None,
                };
            }
            Check::Idle(_) => {}
        }
    }

    /// The rest of `NodeLifecycle::ask`.
    fn answered(
        &self,
        term: &mut Term,
        state: &State,
        name: usize,
        node_at_lookup: Node,
        lookup: Option<&Lookup>,
    ) {
        let key = &mut term.keys[name];
        key.stage = Stage::Rest;
        let Some(node) = state.leader.held[name] else {
            return;
        };
        let (view, at_lookup) = (self.view(name, node), self.view(name, node_at_lookup));
        let decided = term.lifecycle.answered(
            time(state.now),
            &view,
            &at_lookup,
            lookup,
            &self.facts(state),
        );
        match decided.next {
            Check::At(until) => key.until = Some(until),
            Check::Ask | Check::RemoveTaints(_) => key.is_due = true,
            Check::Idle(_) => {}
        }
        match decided.action {
            LifecycleAction::AddShutdownTaint(_) => {
                let request = Request::Taint { name, adds: true };
                key.stage = Stage::Sent {
                    request,
                    is_done: None,
                };
            }
            LifecycleAction::Delete(deletion) => key.stage = Stage::Deleting { node, deletion },
            LifecycleAction::TakeOutOfService(taint) => {
                key.stage = Stage::TakingOut { node, taint };
            }
            _ => {}
        }
    }

    /// `act::delete`, after the provider was asked whether it is ready.
    fn last_look(&self, term: &mut Term, name: usize, node: Node, deletion: &Deletion) {
        let look = term
            .lifecycle
            .last_look(&self.view(name, node), deletion, None);
        let version = deletion.resource_version.parse().unwrap();
        let request = Request::Delete { name, version };
        term.keys[name].stage = match look {
            Ok(()) => Stage::Sent {
                request,
                is_done: None,
            },
            Err(_) => Stage::Rest,
        };
    }

    /// `act::take_out_of_service`, after the provider was asked whether it is ready.
    fn last_look_at_stop(&self, term: &mut Term, name: usize, node: Node, taint: &TaintAddition) {
        let look = term
            .lifecycle
            .last_look_at_stop(&self.view(name, node), None);
        let version = taint.resource_version.as_deref().unwrap().parse().unwrap();
        let request = Request::OutOfService { name, version };
        term.keys[name].stage = match look {
            Ok(()) => Stage::Sent {
                request,
                is_done: None,
            },
            Err(_) => Stage::Rest,
        };
    }

    fn request_answered(
        &self,
        state: &mut State,
        name: usize,
        request: Request,
        is_done: Option<bool>,
    ) {
        let live = state.nodes[name];
        Self::in_term(state, |term, state| {
            let key = &mut term.keys[name];
            key.stage = Stage::Rest;
            match (request, is_done) {
                (Request::Delete { version, .. }, Some(true)) => {
                    let node = Node {
                        version,
                        is_ready: false,
                        since: 0,
                        is_tainted: false,
                        is_out_of_service: false,
                        is_confirmed: false,
                    };
                    term.lifecycle
                        .deleted(time(state.now), &self.view(name, node));
                }
                (Request::OutOfService { .. }, Some(true)) => {
                    let now = time(state.now);
                    term.lifecycle
                        .taken_out_of_service(now, &NAMES[name].into());
                }
                (Request::Taint { .. }, Some(true)) => {}
                _ => key.is_due = true,
            }
        });
        // The store observes the write.
        if let (Request::Taint { .. } | Request::OutOfService { .. }, Some(true)) =
            (request, is_done)
            && let (Some(held), Some(live)) = (state.leader.held[name], live)
            && live.version > held.version
        {
            state.leader.held[name] = Some(live);
            Self::changed(state, name, Some(held), true);
        }
    }

    fn edits(state: &State, add: &mut Add<'_, State>) {
        for (name, word) in NAMES.iter().enumerate() {
            let mut edit = |what: &str, change: &dyn Fn(&mut State)| {
                let mut after = state.clone();
                after.left.edits -= 1;
                change(&mut after);
                add(format_args!("{word}: {what}"), after);
            };
            let machine = state.machines[name];
            if machine != Machine::Gone {
                edit("the machine is removed", &|state| {
                    state.machines[name] = Machine::Gone;
                });
            }
            if machine == Machine::Stopped {
                edit("the machine starts", &|state| {
                    state.machines[name] = Machine::Started;
                });
            }
            if machine.runs() {
                edit("the machine stops", &|state| {
                    state.machines[name] = Machine::Stopped;
                });
            }
            if let Some(node) = state.nodes[name]
                && (node.is_ready || machine.runs())
            {
                edit("the condition Ready changes", &|state| {
                    let (is_ready, since) = (!node.is_ready, state.now);
                    state.put(
                        name,
                        Some(Node {
                            is_ready,
                            since,
                            ..node
                        }),
                    );
                });
            }
        }
    }
}

impl State {
    fn put(&mut self, name: usize, node: Option<Node>) {
        self.versions += 1;
        let node = node.map(|node| Node {
            version: self.versions,
            ..node
        });
        self.nodes[name] = node;
        self.leader.send(name, node);
        self.standby.send(name, node);
    }

    /// The API server carries out a request, if its preconditions hold.
    fn carry_out(&mut self, request: Request) -> bool {
        match request {
            Request::Delete { name, version } => match self.nodes[name] {
                Some(node) if node.version == version => {
                    if self.machines[name] != Machine::Gone {
                        self.violation = Some("a Node is deleted whose machine exists");
                    }
                    self.put(name, None);
                    true
                }
                Some(_) => false,
                None => true,
            },
            Request::Taint { name, adds } => match self.nodes[name] {
                Some(node) if adds && !node.is_tainted && !node.is_ready => {
                    self.put(
                        name,
                        Some(Node {
                            is_tainted: true,
                            ..node
                        }),
                    );
                    true
                }
                Some(node)
                    if !adds && node.is_ready && (node.is_tainted || node.is_out_of_service) =>
                {
                    self.put(
                        name,
                        Some(Node {
                            is_tainted: false,
                            is_out_of_service: false,
                            ..node
                        }),
                    );
                    true
                }
                _ => true,
            },
            Request::OutOfService { name, version } => match self.nodes[name] {
                Some(node) if node.version == version => {
                    if node.is_ready {
                        self.violation = Some("a Node is taken out of service that is ready");
                    }
                    if self.machines[name] == Machine::Running {
                        self.violation = Some("a Node is out of service whose machine runs");
                    }
                    self.put(
                        name,
                        Some(Node {
                            is_out_of_service: true,
                            ..node
                        }),
                    );
                    true
                }
                Some(_) => false,
                None => true,
            },
        }
    }

    fn end_term(&mut self) {
        for key in self.term.iter().flat_map(|term| &term.keys) {
            match key.stage {
                Stage::Sent {
                    request,
                    is_done: None,
                } if !self.late.contains(&request) => self.late.push(request),
                _ => {}
            }
        }
        self.term = None;
    }
}

/// The time after so many monitor periods.
fn time(periods: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + PERIOD * u32::from(periods)
}

impl Model for Nodes {
    type State = State;

    /// Both Nodes are ready; the machine of one has just gone; both have; that of one has just stopped.
    fn begin(&self) -> Vec<State> {
        let state =
            |lost: usize, loss: Machine| {
                let nodes: [Option<Node>; 2] = std::array::from_fn(|name| {
                    Some(Node {
                        version: name as u16 + 1,
                        is_ready: name >= lost,
                        since: 0,
                        is_tainted: false,
                        is_out_of_service: false,
                        is_confirmed: false,
                    })
                });
                let store = Store::listed(nodes);
                State {
                    left: self.scope,
                    now: 0,
                    machines: std::array::from_fn(|name| {
                        if name < lost { loss } else { Machine::Running }
                    }),
                    nodes,
                    versions: 2,
                    leader: store.clone(),
                    standby: store,
                    term: None,
                    late: Vec::new(),
                    violation: None,
                    is_calm: false,
                }
            };
        [
            state(0, Machine::Gone),
            state(1, Machine::Gone),
            state(2, Machine::Gone),
            state(1, Machine::Stopped),
        ]
        .into()
    }

    fn steps(&self, state: &State, add: &mut Add<'_, State>) {
        if state.leader.has_next() {
            let mut after = state.clone();
            let event = after.leader.next(|new, held| new.version < held.version);
            if event.old != after.leader.held[event.name] {
                Self::changed(&mut after, event.name, event.old, false);
            }
            add(format_args!("the leader's store has the next event"), after);
        }
        let Some(term) = &state.term else {
            for (who, swaps) in [("same", false), ("other", true)] {
                let mut after = state.clone();
                if swaps {
                    std::mem::swap(&mut after.leader, &mut after.standby);
                }
                self.begins(&mut after);
                add(format_args!("the {who} replica leads"), after);
            }
            return;
        };
        let mut next_wait: Option<Timestamp> = None;
        let mut is_busy = false;
        for (name, word) in NAMES.iter().enumerate() {
            let key = &term.keys[name];
            let mut step = |words: std::fmt::Arguments<'_>, act: &dyn Fn(&mut Term, &mut State)| {
                let mut after = state.clone();
                Self::in_term(&mut after, act);
                add(words, after);
            };
            match &key.stage {
                Stage::Asked { node, answer: None } => {
                    let mut looks = |lookup: Lookup, costs: bool| {
                        step(
                            format_args!("the provider looks for {word}: {lookup:?}"),
                            &|term, state| {
                                state.left.stale_reads -= u8::from(costs);
                                let answer = Some(lookup.clone());
                                term.keys[name].stage = Stage::Asked {
                                    node: *node,
                                    answer,
                                };
                            },
                        );
                    };
                    let lookup = self.lookup(state, name);
                    let is_found = matches!(lookup, Lookup::Found(_));
                    looks(lookup, false);
                    if state.left.stale_reads > 0 && is_found {
                        looks(Lookup::Absent { confirmed: true }, true);
                        looks(Lookup::Absent { confirmed: false }, true);
                        if state.machines[name].runs() {
                            looks(self.found(name, PowerState::Shutdown), true);
                        }
                    }
                }
                Stage::Asked {
                    node,
                    answer: Some(lookup),
                } => {
                    step(
                        format_args!("the answer about {word} arrives"),
                        &|term, state| {
                            self.answered(term, state, name, *node, Some(lookup));
                        },
                    );
                }
                Stage::Deleting { node, deletion } => {
                    step(format_args!("a last look at {word}"), &|term, _| {
                        self.last_look(term, name, *node, deletion);
                    });
                }
                Stage::TakingOut { node, taint } => {
                    step(
                        format_args!("a last look at the stop of {word}"),
                        &|term, _| {
                            self.last_look_at_stop(term, name, *node, taint);
                        },
                    );
                }
                Stage::Sent {
                    request,
                    is_done: None,
                } => {
                    step(
                        format_args!("the API server does {request:?}"),
                        &|term, state| {
                            let is_done = Some(state.carry_out(*request));
                            term.keys[name].stage = Stage::Sent {
                                request: *request,
                                is_done,
                            };
                        },
                    );
                }
                Stage::Sent { request, is_done } => {
                    let mut after = state.clone();
                    self.request_answered(&mut after, name, *request, *is_done);
                    add(
                        format_args!("the answer to {request:?} arrives: {is_done:?}"),
                        after,
                    );
                }
                Stage::Rest if key.is_due => {
                    step(
                        format_args!("the key of {word} is taken"),
                        &|term, state| self.take(term, state, name),
                    );
                }
                Stage::Rest => {
                    next_wait = next_wait.into_iter().chain(key.until).min();
                    let due = key.until.is_some_and(|until| until <= time(state.now));
                    if due {
                        step(format_args!("the wait of {word} is over"), &|term, _| {
                            term.keys[name].is_due = true;
                            term.keys[name].until = None;
                        });
                    }
                }
            }
            is_busy |= !matches!(key.stage, Stage::Rest) || key.is_due;
            if state.left.lost_answers > 0 {
                let mut after = state.clone();
                after.left.lost_answers -= 1;
                match &key.stage {
                    Stage::Asked { node, .. } => {
                        Self::in_term(&mut after, |term, state| {
                            self.answered(term, state, name, *node, None);
                        });
                        add(format_args!("the answer about {word} is lost"), after);
                    }
                    Stage::Sent { request, .. } => {
                        self.request_answered(&mut after, name, *request, None);
                        add(format_args!("the answer to {request:?} is lost"), after);
                    }
                    _ => {}
                }
            }
            if state.left.stale_reads > 0
                && let Some(node) = state.leader.held[name]
            {
                let view = self.view(name, node);
                for lookup in [self.lookup(state, name), Lookup::Absent { confirmed: true }] {
                    let mut after = state.clone();
                    after.left.stale_reads -= 1;
                    Self::in_term(&mut after, |term, state| {
                        term.lifecycle.observed(time(state.now), &view, &lookup);
                    });
                    add(
                        format_args!("another loop has an older answer about {word}: {lookup:?}"),
                        after,
                    );
                }
            }
        }
        if state.standby.has_next() {
            let mut after = state.clone();
            after.standby.next(|_, _| false);
            add(
                format_args!("the standby's store has the next event"),
                after,
            );
        }
        for nth in 0..state.late.len() {
            let mut after = state.clone();
            let request = after.late.remove(nth);
            after.carry_out(request);
            add(
                format_args!("{request:?} of an earlier term arrives"),
                after,
            );
        }
        let waits = next_wait.is_some_and(|until| until > time(state.now)) && !is_busy;
        if if state.is_calm {
            waits
        } else {
            state.now < HORIZON
        } {
            let mut after = state.clone();
            after.now += 1;
            add(format_args!("a monitor period passes"), after);
        }
        if state.left.edits > 0 {
            Self::edits(state, add);
        }
        if state.left.crashes > 0 {
            let mut after = state.clone();
            after.left.crashes -= 1;
            after.end_term();
            after.leader = Store::listed(state.nodes);
            add(
                format_args!("the leader dies, and its successor lists"),
                after,
            );
        }
        if state.left.leader_changes > 0 {
            let mut after = state.clone();
            after.left.leader_changes -= 1;
            after.end_term();
            std::mem::swap(&mut after.leader, &mut after.standby);
            self.begins(&mut after);
            add(format_args!("the other replica leads"), after);
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        state.violation
    }

    /// Machines that exist run, and their kubelets report; an operator confirms that the others are gone.
    fn calm(&self, state: &State) -> State {
        let mut calm = State {
            left: Scope::NONE,
            is_calm: true,
            late: Vec::new(),
            ..state.clone()
        };
        for name in 0..NAMES.len() {
            let is_gone = state.machines[name] == Machine::Gone;
            if matches!(calm.machines[name], Machine::Stopped) {
                calm.machines[name] = Machine::Started;
            }
            if let Some(node) = state.nodes[name]
                && (node.is_ready == is_gone || node.is_confirmed != is_gone)
            {
                let since = if node.is_ready == is_gone {
                    state.now
                } else {
                    node.since
                };
                calm.put(
                    name,
                    Some(Node {
                        is_ready: !is_gone,
                        is_confirmed: is_gone,
                        since,
                        ..node
                    }),
                );
            }
        }
        calm
    }

    fn missing(&self, state: &State) -> Option<&'static str> {
        for (node, machine) in state.nodes.iter().zip(state.machines) {
            match (node, machine) {
                (Some(_), Machine::Gone) => return Some("a Node stays whose machine is gone"),
                (Some(node), _) if node.is_tainted || node.is_out_of_service => {
                    return Some("a Node that is ready keeps the taint of a stopped machine");
                }
                (None, _) if machine != Machine::Gone => {
                    return Some("a machine that exists has no Node");
                }
                _ => {}
            }
        }
        None
    }
}
