//! The cloud-node-lifecycle loop in one lease term.

use jiff::Timestamp;
use outrigger_core::node::{
    change::TaintAddition,
    instance::Lookup,
    lifecycle::{Check, Deletion, Lifecycle, LifecycleAction},
};

use super::{
    NAMES, Nodes, State, time,
    world::{Node, Request},
};
use crate::hashed::Hashed;

/// The memory of the leader.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) lifecycle: Lifecycle,
    pub(super) keys: [Key; 2],
}

/// The state of a Node in the loop and its queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Key {
    pub(super) is_due: bool,
    pub(super) until: Option<Timestamp>,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
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

impl Nodes {
    pub(super) fn in_term(state: &mut State, act: impl FnOnce(&mut Term, &mut State)) {
        if let Some(term) = state.term.take() {
            let mut term = Term::clone(&term);
            act(&mut term, state);
            state.term = Some(Hashed::new(term));
        }
    }

    /// The store of the leader has another state of a Node: the event handlers.
    pub(super) fn changed(state: &mut State, name: usize, old: Option<Node>, is_own: bool) {
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

    pub(super) fn begins(&self, state: &mut State) {
        let mut keys: [Key; 2] = Default::default();
        for (key, held) in keys.iter_mut().zip(state.leader.held) {
            key.is_due = held.is_some();
        }
        let lifecycle = Lifecycle::new(self.limits.clone());
        state.term = Some(Hashed::new(Term { lifecycle, keys }));
    }

    /// Each decision begins with this. That it comes as soon as time passes makes fewer states.
    pub(super) fn forget_old(&self, state: &mut State) {
        Self::in_term(state, |term, state| {
            let (now, nodes) = (time(state.now), self.facts(state).nodes);
            term.lifecycle.counts(now, nodes);
            term.lifecycle.stop_counts(now, nodes);
        });
    }

    /// `NodeLifecycle::sync`.
    pub(super) fn take(&self, term: &mut Term, state: &State, name: usize) {
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
    pub(super) fn answered(
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
    pub(super) fn last_look(&self, term: &mut Term, name: usize, node: Node, deletion: &Deletion) {
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
    pub(super) fn last_look_at_stop(
        &self,
        term: &mut Term,
        name: usize,
        node: Node,
        taint: &TaintAddition,
    ) {
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

    pub(super) fn request_answered(
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
}

impl Term {
    /// Returns true if nothing happens before some time comes.
    pub(super) fn waits(&self, now: u8) -> bool {
        let rests = |key: &Key| matches!(key.stage, Stage::Rest) && !key.is_due;
        let next = self.keys.iter().filter_map(|key| key.until).min();
        self.keys.iter().all(rests) && next.is_some_and(|until| until > time(now))
    }
}
