//! All that may happen next to a key of the loop.

use outrigger_core::node::instance::{Lookup, PowerState};

use super::{
    NAMES, Nodes, State,
    term::{Key, Stage, Term},
    time,
};
use crate::search::Add;

impl Nodes {
    /// The next step for a Node, which the loop takes.
    pub(super) fn step(&self, state: &State, name: usize, key: &Key, add: &mut Add<'_, State>) {
        let word = NAMES[name];
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
            Stage::Rest
                if key.is_due || key.until.is_some_and(|until| until <= time(state.now)) =>
            {
                step(
                    format_args!("the key of {word} is taken"),
                    &|term, state| self.take(term, state, name),
                );
            }
            Stage::Rest => {}
        }
    }

    /// An answer about a Node, or to a write, is lost; another loop has an older answer about it.
    pub(super) fn faults(&self, state: &State, name: usize, key: &Key, add: &mut Add<'_, State>) {
        let word = NAMES[name];
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
}
