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
//!
//! A standby decides nothing. So it observes its events only when it becomes the leader, any number of them.

mod steps;
mod term;
mod world;

use std::{fmt, iter, mem, time::Duration};

use jiff::Timestamp;
use outrigger_core::node::{
    NodeView, OUT_OF_SERVICE_VALUE, Ready, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN,
    deletion_limit::DeletionLimits,
    instance::{Instance, Lookup, PowerState},
    lifecycle::LifecycleFacts,
    ownership::{NodeScope, Prefixes},
};
use serde_json::json;

use self::{
    term::{Stage, Term},
    world::{Machine, Node, Request},
};
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

#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    now: u8,
    machines: [Machine; 2],
    nodes: [Option<Node>; 2],
    leader: Store<Node>,
    /// Holds what it held when it became a standby, until it leads; none once it cannot lead any more.
    standby: Option<Store<Node>>,
    term: Option<Hashed<Term>>,
    late: Vec<Request>,
    violation: Option<&'static str>,
    /// Without a further fault no time passes but that of the waits.
    is_calm: bool,
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
}

impl State {
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
        self.late.sort_unstable();
        self.term = None;
    }

    /// The states in which the other replica leads: its store shows all events so far, or less.
    fn with_other_leader(&self) -> impl Iterator<Item = Self> {
        let mut standby = self.standby.clone();
        iter::from_fn(move || {
            let store = standby.take()?;
            let mut after = self.clone();
            after.standby = Some(mem::replace(&mut after.leader, store.clone()));
            standby = Some(store).filter(Store::has_next).map(|mut store| {
                store.next(Node::is_older);
                store
            });
            Some(after)
        })
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
                        version: 1,
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
                    leader: store.clone(),
                    standby: Some(store),
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
        let add = &mut |words: fmt::Arguments<'_>, mut after: State| {
            if after.term.is_some() && after.left.crashes == 0 && after.left.leader_changes == 0 {
                after.standby = None;
            }
            add(words, after);
        };
        if state.leader.has_next() {
            let mut after = state.clone();
            let event = after.leader.next(Node::is_older);
            if event.old != after.leader.held[event.name] {
                Self::changed(&mut after, event.name, event.old, false);
            }
            add(format_args!("the leader's store has the next event"), after);
        }
        let Some(term) = &state.term else {
            let mut after = state.clone();
            self.begins(&mut after);
            add(format_args!("the same replica leads"), after);
            for mut after in state.with_other_leader() {
                self.begins(&mut after);
                add(format_args!("the other replica leads"), after);
            }
            return;
        };
        for (name, key) in term.keys.iter().enumerate() {
            self.step(state, name, key, add);
            self.faults(state, name, key, add);
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
        let may_pass = if state.is_calm {
            term.waits(state.now)
        } else {
            state.now < HORIZON
        };
        if may_pass {
            let mut after = state.clone();
            after.now += 1;
            self.forget_old(&mut after);
            add(format_args!("a monitor period passes"), after);
        }
        if state.left.edits > 0 {
            state.edits(add);
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
            for mut after in state.with_other_leader() {
                after.left.leader_changes -= 1;
                after.end_term();
                self.begins(&mut after);
                add(format_args!("the other replica leads"), after);
            }
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
