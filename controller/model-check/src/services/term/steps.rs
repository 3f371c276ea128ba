//! All that may happen next in a term.

use super::{LeaseWrite, Stage, Term};
use crate::{
    hashed::Hashed,
    search::Add,
    services::{Services, State, UIDS},
};

impl Term {
    /// All that may happen next in this term.
    pub(in crate::services) fn steps(model: &Services, state: &State, add: &mut Add<'_, State>) {
        let term: &Self = state.term.as_ref().expect("there is a leader");
        let mut step =
            |words: std::fmt::Arguments<'_>, costs: bool, act: &dyn Fn(&mut Self, &mut State)| {
                let mut after = state.clone();
                let mut changed = term.clone();
                act(&mut changed, &mut after);
                if costs {
                    after.left.lost_answers -= 1;
                }
                after.term = Some(Hashed::new(changed));
                add(words, after);
            };
        let may_lose = state.left.lost_answers > 0;
        for (at, uid) in UIDS.into_iter().enumerate() {
            match &term.keys[at].stage {
                Stage::Step {
                    write,
                    answer: None,
                    ..
                }
                | Stage::Result {
                    write,
                    answer: None,
                    ..
                } => {
                    step(
                        format_args!("the API server takes a write to {uid}"),
                        false,
                        &|term, state| {
                            let taken = state.server.write(write);
                            match &mut term.keys[at].stage {
                                Stage::Step { answer, .. } | Stage::Result { answer, .. } => {
                                    *answer = Some(taken);
                                }
                                _ => {}
                            }
                        },
                    );
                }
                Stage::Step {
                    answer: Some(answer),
                    ..
                }
                | Stage::Result {
                    answer: Some(answer),
                    ..
                } => {
                    step(
                        format_args!("the answer arrives: {answer:?}"),
                        false,
                        &|term, state| {
                            term.write_answered(model, state, at, Some(*answer));
                        },
                    );
                }
                Stage::Called { call, answer: None } => {
                    step(
                        format_args!("the cloud does {call} for {uid}"),
                        false,
                        &|term, state| {
                            term.cloud_acts(model, state, at);
                        },
                    );
                }
                Stage::Called {
                    call,
                    answer: Some(answer),
                } => {
                    step(
                        format_args!("{call} is answered for {uid}: {answer:?}"),
                        false,
                        &|term, state| {
                            term.answered(model, state, at, call.clone(), Some(*answer));
                        },
                    );
                }
                Stage::Rest | Stage::Lease(_) => {}
            }
        }
        if let Some(write) = term.lease {
            step(
                format_args!("the Lease is written: {write:?}"),
                false,
                &|term, state| {
                    term.lease = None;
                    state.lease = match write {
                        LeaseWrite::Record(targets) => Some(targets),
                        LeaseWrite::Clear => {
                            term.applied = None;
                            None
                        }
                    };
                    for at in 0..term.keys.len() {
                        if let Stage::Lease(call) = &term.keys[at].stage {
                            let call = call.clone();
                            term.send(model, state, at, call);
                        }
                    }
                },
            );
        }
        for (at, uid) in UIDS.into_iter().enumerate() {
            let key = &term.keys[at];
            if key.is_due && matches!(key.stage, Stage::Rest) {
                step(
                    format_args!("the key of {uid} is taken"),
                    false,
                    &|term, state| {
                        term.take(model, state, at);
                    },
                );
            }
        }
        if term.targets != state.world.nodes {
            step(
                format_args!("other targets are published"),
                false,
                &|term, state| {
                    term.keep_inherited(model, state);
                    term.targets = state.world.nodes;
                    term.queue_without_targets(model, state);
                },
            );
        }
        if term.all_have_targets(model, state) {
            step(
                format_args!("all load balancers have the targets"),
                false,
                &|term, _| {
                    term.applied = Some(term.targets);
                    term.lease = Some(LeaseWrite::Record(term.targets));
                },
            );
        }
        for (at, uid) in UIDS.into_iter().enumerate() {
            let key = &term.keys[at];
            if let (Some(until), Stage::Rest, false) = (key.until, &key.stage, key.is_due) {
                step(
                    format_args!("the wait of {uid} is over"),
                    false,
                    &|term, _| {
                        term.now = term.now.max(until);
                        term.keys[at].is_due = true;
                    },
                );
            }
            match &key.stage {
                Stage::Step { .. } | Stage::Result { .. } if may_lose => {
                    step(
                        format_args!("the write's answer is lost"),
                        true,
                        &|term, state| {
                            term.write_answered(model, state, at, None);
                        },
                    );
                }
                Stage::Called { call, .. } if may_lose => {
                    step(
                        format_args!("the answer to {call} is lost"),
                        true,
                        &|term, state| {
                            term.answered(model, state, at, call.clone(), None);
                        },
                    );
                }
                Stage::Rest if state.left.stale_reads > 0 => {
                    let mut after = state.clone();
                    let mut changed = term.clone();
                    if changed.compare(model, state, at) {
                        after.left.stale_reads -= 1;
                        after.term = Some(Hashed::new(changed));
                        add(
                            format_args!("a comparison of {uid} reads an old state of the cloud"),
                            after,
                        );
                        return;
                    }
                }
                _ => {}
            }
        }
    }
}
