//! The service-lb loop in one lease term.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_core::{
    effects::Effects,
    error_class::{ErrorClass, Requeue},
    forbidden_addresses::ForbiddenAddresses,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall, RawAnswer},
        change::{is_recorded_otherwise, needs_sync},
        last_applied::Hash,
        ownership::{Ownership, is_not_managed, is_released, lost_finalizer},
        plan::{Consequence, Ensure, Failure, Mode, Progress, Step},
    },
};

use super::{
    LoadBalancer, Services, State, UIDS, place,
    server::{Answer, Change, Versioned, Write},
};
use crate::{hashed::Hashed, search::Add};

/// The memory of the leader.
#[derive(Clone, Debug)]
pub(super) struct Term {
    now: Timestamp,
    /// `CurrentTargets`: those that go out now.
    targets: usize,
    /// `Applied`: those that all load balancers have.
    applied: Option<usize>,
    /// A write of the Lease that is due.
    lease: Option<LeaseWrite>,
    keys: [Key; 2],
}

/// A write of the annotation with the targets that all load balancers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseWrite {
    Clear,
    Record(usize),
}

/// `ServiceState`, with the queue's knowledge of its key.
#[derive(Clone, Debug, Default)]
struct Key {
    progress: Progress,
    orphaned: Option<Hashed<ServiceView>>,
    is_cleaned_up: bool,
    is_edited: bool,
    is_due: bool,
    until: Option<Timestamp>,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Rest,
    /// `Writes::write_step`.
    Step {
        write: Write,
        answer: Option<Answer>,
        then: Then,
    },
    /// `Applied::begin`.
    Lease(Call),
    /// With what the cloud has answered, once it has.
    Called {
        call: Call,
        answer: Option<Disposition>,
    },
    /// `Writes::apply`, with how the call ended.
    Result {
        call: Call,
        result: Option<Disposition>,
        write: Write,
        requeue: Option<Requeue>,
        answer: Option<Answer>,
    },
}

#[derive(Clone, Debug)]
enum Then {
    Ensure(Ensure),
    Again,
    Rest,
}

/// How the write of a result ended: when to look again, or that the Service is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    WithWait(Option<Requeue>),
    Gone,
}

#[derive(Clone, Debug)]
struct Call {
    kind: Kind,
    /// The Service that it is about, as it was planned on.
    planned: Versioned,
    targets: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Ensure(Ensure),
    Update {
        then_again: bool,
    },
    Delete,
    /// `Cleanup::clean_up`: the Service is gone or released.
    CleanUp,
}

impl Term {
    /// `ServiceLb::begin`.
    pub(super) fn begin(model: &Services, state: &State) -> Self {
        let mut term = Self {
            now: model.time,
            targets: state.world.nodes,
            applied: state.lease,
            lease: None,
            keys: Default::default(),
        };
        term.provider_changed(model, state);
        term
    }

    /// `Sessions::apply` and `queue_all`.
    pub(super) fn provider_changed(&mut self, model: &Services, state: &State) {
        let capability = model.capability(state.world);
        for (uid, key) in UIDS.iter().zip(&mut self.keys) {
            key.progress.provider_changed();
            let live = state.leader.live(uid);
            if let Some(live) = &live
                && is_not_managed(&live.service)
                && Ownership::of(&live.service, Some(capability)) == Ownership::Provide
            {
                key.progress.doubt();
            }
            key.is_due |=
                live.is_some_and(|live| may_concern(&live.service)) || key.orphaned.is_some();
        }
    }

    /// The event handlers of the store of Services.
    pub(super) fn changed(&mut self, model: &Services, state: &State, changes: Vec<Change>) {
        let capability = Some(model.capability(state.world));
        for change in changes {
            match change {
                Change::Added(service) => {
                    if may_concern(&service) {
                        let key = &mut self.keys[place(&service.uid)];
                        key.progress.appeared(&service);
                        key.is_due = true;
                    }
                }
                Change::Updated(old, new) => {
                    let key = &mut self.keys[place(&new.uid)];
                    if lost_finalizer(&old, &new, capability) && key.mark_orphaned(&old) {
                        key.is_due = true;
                    } else {
                        let is_edited = needs_sync(&old, &new, model.capability(state.world));
                        let is_other = is_recorded_otherwise(&old, &new);
                        let concerns = may_concern(&new);
                        key.is_edited |= is_edited && concerns;
                        key.is_due |= (is_edited || is_other) && concerns;
                        if is_other && concerns {
                            key.progress.record_changed(&old);
                        }
                    }
                }
                Change::Deleted(service) => {
                    let left = Ownership::of(&service, capability).may_be_ours();
                    let key = &mut self.keys[place(&service.uid)];
                    let left = left && key.mark_orphaned(&service);
                    key.is_cleaned_up = false;
                    if left {
                        key.is_due = true;
                    } else {
                        key.reset();
                    }
                }
            }
        }
    }

    /// The provider's process ends: each call fails.
    pub(super) fn calls_fail(&mut self, model: &Services, state: &mut State) {
        for at in 0..self.keys.len() {
            if let Stage::Called { call, .. } = &self.keys[at].stage {
                let call = call.clone();
                self.answered(model, state, at, call, None);
            }
        }
    }

    pub(super) fn writes_on_their_way(&self) -> impl Iterator<Item = Write> {
        self.keys.iter().filter_map(|key| match &key.stage {
            Stage::Step {
                write,
                answer: None,
                ..
            }
            | Stage::Result {
                write,
                answer: None,
                ..
            } => Some(write.clone()),
            _ => None,
        })
    }

    pub(super) fn each_version(&mut self, act: &mut dyn FnMut(&mut u16)) {
        for key in &mut self.keys {
            let (planned, written) = match &mut key.stage {
                Stage::Rest => (None, None),
                Stage::Step { write, answer, .. } => (Some(&mut write.planned_on), answer.as_mut()),
                Stage::Lease(call) | Stage::Called { call, .. } => (Some(&mut call.planned), None),
                Stage::Result {
                    call,
                    write,
                    answer,
                    ..
                } => {
                    act(&mut call.planned.version);
                    (Some(&mut write.planned_on), answer.as_mut())
                }
            };
            if let Some(planned) = planned {
                act(&mut planned.version);
            }
            if let Some(Answer::Written(version)) = written {
                act(version);
            }
        }
    }

    /// All that may happen next in this term.
    pub(super) fn steps(model: &Services, state: &State, add: &mut Add<'_, State>) {
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

    /// `Drift::compare`, with a stale answer. Returns true if it finds a difference.
    fn compare(&mut self, model: &Services, state: &State, at: usize) -> bool {
        let Some(live) = state.leader.live(UIDS[at]) else {
            return false;
        };
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        let is_settled = key.progress.next(self.now, &live.service, &facts) == Step::Idle;
        if !is_settled || Ownership::of(&live.service, Some(facts.capability)) != Ownership::Provide
        {
            return false;
        }
        let answer = answer(LoadBalancerCall::Get, Disposition::Absent);
        key.is_due |= key.progress.observed(&live.service, &answer);
        true
    }

    /// `Reconciler::sync`.
    fn take(&mut self, model: &Services, state: &mut State, at: usize) {
        let key = &mut self.keys[at];
        key.is_due = false;
        key.until = None;
        let capability = Some(model.capability(state.world));
        match (state.leader.live(UIDS[at]), key.orphaned.clone()) {
            (None, None) => key.reset(),
            (None, Some(orphaned)) => self.clean_up(model, state, at, &orphaned),
            (Some(live), Some(orphaned)) if is_released(&orphaned, &live.service, capability) => {
                self.clean_up(model, state, at, &orphaned);
            }
            (Some(live), _) => {
                key.orphaned = None;
                self.run_step(model, state, at, &live);
            }
        }
    }

    /// `Cleanup::clean_up`.
    fn clean_up(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        orphaned: &Hashed<ServiceView>,
    ) {
        let capability = Some(model.capability(state.world));
        if !Ownership::of(orphaned, capability).may_be_ours() || orphaned.is_left_alone() {
            return self.finish(state, at);
        }
        if let Some(live) = self.read(model, state, at)
            && !is_released(orphaned, &live.service, capability)
        {
            if state.leader.live(UIDS[at]).is_some() {
                self.finish(state, at);
            } else {
                self.keys[at].is_due = true;
            }
            return;
        }
        if let Step::At(until) = self.keys[at].progress.clean_up(self.now) {
            self.keys[at].until = Some(until);
            return;
        }
        let planned = Versioned {
            version: 0,
            service: orphaned.clone(),
        };
        let call = Call {
            kind: Kind::CleanUp,
            planned,
            targets: self.targets,
        };
        self.keys[at].stage = Stage::Called { call, answer: None };
    }

    /// `ObjectWriter::read`: the Service as the API server has it.
    fn read(&mut self, model: &Services, state: &mut State, at: usize) -> Option<Versioned> {
        let live = state
            .server
            .live()
            .filter(|live| *live.service.uid == *UIDS[at])?;
        let change = state.leader.refreshed(&live);
        self.changed(model, state, change.into_iter().collect());
        Some(live)
    }

    /// `Reconciler::run_steps`, one step of it.
    fn run_step(&mut self, model: &Services, state: &mut State, at: usize, live: &Versioned) {
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        if std::mem::take(&mut key.is_edited) {
            key.progress.edited(&live.service, facts.capability);
        }
        key.progress.check_record(&live.service);
        let step = key.progress.next(self.now, &live.service, &facts);
        let is_batch = step.mode() == Mode::Batch;
        let mut write = |patch, then| {
            let write = Write::of(patch, live);
            key.stage = Stage::Step {
                write,
                answer: None,
                then,
            };
        };
        let call = |kind| Call {
            kind,
            planned: live.clone(),
            targets: self.targets,
        };
        match step {
            Step::Idle | Step::Hold { patch: None, .. } => {}
            Step::At(until) => key.until = Some(until),
            Step::Update => {
                let call = call(Kind::Update { then_again: false });
                self.begin_update(model, state, at, call);
            }
            Step::Ensure(_) if is_batch => {
                let call = call(Kind::Update { then_again: true });
                self.begin_update(model, state, at, call);
            }
            Step::Ensure(mut ensure) => match ensure.prepare.take() {
                Some(patch) => write(patch, Then::Ensure(ensure)),
                None => self.ensure(model, state, at, live, ensure),
            },
            Step::Delete { .. } => {
                key.stage = Stage::Called {
                    call: call(Kind::Delete),
                    answer: None,
                };
            }
            Step::Hold {
                patch: Some(patch), ..
            } => write(patch, Then::Rest),
            Step::Write(patch) => write(patch, Then::Again),
        }
    }

    /// `Reconciler::ensure`.
    fn ensure(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        planned: &Versioned,
        mut ensure: Ensure,
    ) {
        self.targets = state.world.nodes;
        self.queue_without_targets(model, state);
        ensure.set_targets(&model.targets[self.targets]);
        let call = Call {
            kind: Kind::Ensure(ensure),
            planned: planned.clone(),
            targets: self.targets,
        };
        self.begin_update(model, state, at, call);
    }

    /// `Applied::begin`.
    fn begin_update(&mut self, model: &Services, state: &mut State, at: usize, call: Call) {
        if self.applied == Some(call.targets) {
            self.send(model, state, at, call);
        } else if state.lease.is_none() && self.lease.is_none() {
            self.applied = None;
            self.send(model, state, at, call);
        } else {
            self.lease = Some(LeaseWrite::Clear);
            self.keys[at].stage = Stage::Lease(call);
        }
    }

    /// A call goes out, if it is still what its Service wants (`ServiceTerm::is_current`).
    fn send(&mut self, model: &Services, state: &State, at: usize, mut call: Call) {
        let key = &mut self.keys[at];
        key.stage = Stage::Rest;
        let Some(live) = state.leader.live(UIDS[at]) else {
            return;
        };
        if needs_sync(
            &call.planned.service,
            &live.service,
            model.capability(state.world),
        ) {
            key.is_due = true;
            return;
        }
        if matches!(call.kind, Kind::Ensure(_)) {
            key.is_cleaned_up = false;
        }
        call.planned = live;
        key.stage = Stage::Called { call, answer: None };
    }

    /// The provider does what the call asks for.
    fn cloud_acts(&mut self, model: &Services, state: &mut State, at: usize) {
        let Stage::Called { call, answer } = &mut self.keys[at].stage else {
            return;
        };
        let in_cloud = &mut state.cloud[at];
        let is_slow = std::mem::take(&mut state.world.is_slow);
        *answer = Some(match &call.kind {
            _ if !state.world.serves => Disposition::NotManaged,
            Kind::Ensure(_) => {
                let inputs = Hash::of(&call.planned.service, model.capability(state.world));
                *in_cloud = Some(LoadBalancer {
                    inputs,
                    targets: call.targets,
                });
                if is_slow {
                    Disposition::InProgress
                } else {
                    Disposition::Ready
                }
            }
            Kind::Update { .. } => match in_cloud {
                Some(balancer) => {
                    balancer.targets = call.targets;
                    Disposition::Ready
                }
                None => Disposition::Absent,
            },
            Kind::Delete | Kind::CleanUp if in_cloud.is_some() && !state.may_delete[at] => {
                state.violation = Some("a load balancer is deleted that its user has not given up");
                Disposition::Absent
            }
            Kind::Delete | Kind::CleanUp if is_slow && in_cloud.is_some() => {
                Disposition::InProgress
            }
            Kind::Delete | Kind::CleanUp => {
                *in_cloud = None;
                Disposition::Absent
            }
        });
    }

    /// `Writes::apply` after a call, once; none: no answer came.
    fn answered(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        call: Call,
        result: Option<Disposition>,
    ) {
        self.keys[at].stage = Stage::Rest;
        let capability = model.capability(state.world);
        let answer = result.map(|disposition| answer(call.kind.of_call(), disposition));
        let unproven = answer
            .as_ref()
            .filter(|_| matches!(call.kind, Kind::Delete | Kind::CleanUp))
            .and_then(|answer| Failure::of_withdrawn(answer, &call.planned.service, capability));
        if matches!(call.kind, Kind::CleanUp) {
            return self.cleanup_answered(model, state, at, answer.as_ref(), unproven.as_ref());
        }
        let failure = unproven.unwrap_or_else(no_answer);
        let is_proven = answer.is_some() && failure.class == ErrorClass::Unavailable;
        let answered = answer.as_ref().filter(|_| is_proven).ok_or(&failure);
        if matches!(call.kind, Kind::Delete) {
            self.keys[at].is_cleaned_up =
                answered.is_ok_and(|answer| answer.disposition != Disposition::InProgress);
        }
        let Some(live) = state.leader.live(UIDS[at]) else {
            return self.applied(model, state, at, &call, result, Ended::Gone);
        };
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        if std::mem::take(&mut key.is_edited) {
            key.progress.edited(&live.service, facts.capability);
        }
        let (progress, service) = (&mut key.progress, &live.service);
        progress.check_record(service);
        let Consequence { patch, requeue, .. } = match &call.kind {
            Kind::Ensure(ensure) => progress.ensured(self.now, service, ensure, answered, &facts),
            Kind::Update { .. } => progress.updated(
                self.now,
                service,
                &model.targets[call.targets],
                answered,
                &facts,
            ),
            Kind::Delete | Kind::CleanUp => {
                progress.deleted(self.now, Some(service), answered, &facts)
            }
        };
        match patch {
            Some(patch) => {
                let write = Write::of(patch, &live);
                key.stage = Stage::Result {
                    call,
                    result,
                    write,
                    requeue,
                    answer: None,
                };
            }
            None => self.applied(model, state, at, &call, result, Ended::WithWait(requeue)),
        }
    }

    /// The end of `Writes::apply`, and of the call.
    fn applied(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        call: &Call,
        result: Option<Disposition>,
        ended: Ended,
    ) {
        let targets = self.targets;
        let key = &mut self.keys[at];
        key.stage = Stage::Rest;
        if let Kind::Delete = call.kind {
            if ended == Ended::WithWait(None) {
                return self.finish(state, at);
            }
            key.is_cleaned_up = false;
            let has_ended = result
                .is_some_and(|it| it != Disposition::InProgress && it != Disposition::NotManaged);
            let live = state.leader.live(UIDS[at]);
            let capability = Some(model.capability(state.world));
            let is_left = live
                .is_none_or(|live| is_released(&call.planned.service, &live.service, capability));
            if ended == Ended::Gone || (has_ended && is_left) {
                let answer =
                    result.map(|disposition| answer(LoadBalancerCall::Delete, disposition));
                let unproven = answer.as_ref().and_then(|answer| {
                    Failure::of_withdrawn(
                        answer,
                        &call.planned.service,
                        model.capability(state.world),
                    )
                });
                return self.cleanup_answered(model, state, at, answer.as_ref(), unproven.as_ref());
            }
        }
        let wait = match ended {
            Ended::WithWait(wait) => wait,
            Ended::Gone => None,
        };
        match wait {
            Some(Requeue::After(delay)) if delay > Duration::ZERO => {
                key.until = Some(self.now + delay);
            }
            Some(Requeue::After(_) | Requeue::BackOff | Requeue::SlowBackOff) => key.is_due = true,
            Some(Requeue::OnChange | Requeue::Stop) => {}
            None => key.is_due |= matches!(call.kind, Kind::Update { then_again: true }),
        }
        // `requeue_if_outdated`.
        key.is_due |=
            matches!(call.kind, Kind::Ensure(_) | Kind::Update { .. }) && call.targets != targets;
    }

    /// `Cleanup::cleanup_answered`.
    fn cleanup_answered(
        &mut self,
        model: &Services,
        state: &State,
        at: usize,
        answer: Option<&LoadBalancerAnswer>,
        unproven: Option<&Failure>,
    ) {
        if unproven.is_some() {
            return self.finish(state, at);
        }
        let facts = model.facts(state.world, self.targets, self.applied);
        let failure = no_answer();
        let key = &mut self.keys[at];
        let decided = key
            .progress
            .deleted(self.now, None, answer.ok_or(&failure), &facts);
        match decided.requeue {
            Some(Requeue::After(delay)) => key.until = Some(self.now + delay),
            Some(_) => key.is_due = true,
            None => self.finish(state, at),
        }
    }

    /// `Cleanup::finish`.
    fn finish(&mut self, state: &State, at: usize) {
        let key = &mut self.keys[at];
        key.orphaned = None;
        key.reset();
        if let Some(next) = &state.leader.held
            && (*next.service.uid != *UIDS[at]
                || Ownership::of(&next.service, None) == Ownership::WaitOver)
        {
            self.keys[place(&next.service.uid)].is_due = true;
        }
    }

    /// The answer to the write of a step or of a result (`ObjectWriter::write`); none: it was lost.
    fn write_answered(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        answer: Option<Answer>,
    ) {
        let stage = std::mem::take(&mut self.keys[at].stage);
        let (Stage::Step { write, .. } | Stage::Result { write, .. }) = &stage else {
            return;
        };
        // `ObjectWriter::look`: a refusal counts only for the Service as it was planned on.
        let (is_there, answer) = match answer {
            Some(Answer::Written(version)) => {
                state.leader.written(write, version);
                if write.patch.is_of_record() {
                    let planned = write.planned_on.service.arc();
                    let progress = &mut self.keys[at].progress;
                    progress.record_written(&write.patch.applied_to(planned, ""));
                }
                (true, answer)
            }
            Some(Answer::Conflict | Answer::Refused) => match self.read(model, state, at) {
                Some(live)
                    if answer == Some(Answer::Refused)
                        && live.version == write.planned_on.version =>
                {
                    (true, Some(Answer::Refused))
                }
                Some(_) => (true, Some(Answer::Conflict)),
                None => (false, answer),
            },
            Some(Answer::Gone) => (false, answer),
            None => (true, None),
        };
        let key = &mut self.keys[at];
        match stage {
            _ if !is_there => {
                if let Stage::Result { call, result, .. } = stage {
                    self.applied(model, state, at, &call, result, Ended::Gone);
                }
            }
            Stage::Step { write, then, .. } => match (answer, then) {
                (Some(Answer::Written(_)), Then::Ensure(ensure)) => {
                    self.ensure(model, state, at, &write.planned_on, ensure);
                }
                (Some(Answer::Written(_)), Then::Rest) => {}
                _ => key.is_due = true,
            },
            Stage::Result {
                call,
                result,
                requeue,
                ..
            } => match answer {
                Some(Answer::Written(_)) => {
                    self.applied(model, state, at, &call, result, Ended::WithWait(requeue));
                }
                Some(Answer::Conflict) => self.answered(model, state, at, call, result),
                _ => {
                    key.progress.not_written();
                    self.applied(
                        model,
                        state,
                        at,
                        &call,
                        result,
                        Ended::WithWait(Some(Requeue::BackOff)),
                    );
                }
            },
            _ => {}
        }
    }

    /// `Rollout::keep_inherited`.
    fn keep_inherited(&mut self, model: &Services, state: &State) {
        if self.applied == Some(self.targets) {
            let facts = model.facts(state.world, self.targets, self.applied);
            for (uid, key) in UIDS.iter().zip(&mut self.keys) {
                if let Some(live) = state.leader.live(uid) {
                    key.progress.targets_change(&live.service, &facts);
                }
            }
        }
    }

    /// `Rollout::queue_without_targets`.
    fn queue_without_targets(&mut self, model: &Services, state: &State) {
        let facts = model.facts(state.world, self.targets, self.applied);
        for (uid, key) in UIDS.iter().zip(&mut self.keys) {
            let live = state.leader.live(uid);
            key.is_due |=
                live.is_some_and(|live| key.progress.targets.are_needed(&live.service, &facts));
        }
    }

    /// `Rollout::finish`, `Applied::record`.
    fn all_have_targets(&self, model: &Services, state: &State) -> bool {
        let facts = model.facts(state.world, self.targets, self.applied);
        self.applied != Some(self.targets)
            && UIDS.iter().zip(&self.keys).all(|(uid, key)| {
                let in_flight = match &key.stage {
                    Stage::Lease(_) => return false,
                    Stage::Called { call, .. } | Stage::Result { call, .. } => Some(call),
                    _ => None,
                };
                let is_other =
                    |call: &Call| call.kind.has_targets() && call.targets != self.targets;
                let live = state
                    .leader
                    .live(uid)
                    .filter(|live| may_concern(&live.service));
                let blocks = |live: Versioned| {
                    key.progress
                        .targets
                        .block_lease_revision(&live.service, &facts)
                };
                key.orphaned.is_none()
                    && !in_flight.is_some_and(is_other)
                    && !live.is_some_and(blocks)
            })
    }
}

impl Key {
    /// `ServiceState::mark_orphaned`.
    fn mark_orphaned(&mut self, service: &Hashed<ServiceView>) -> bool {
        if !self.is_cleaned_up {
            self.orphaned = Some(service.clone());
        }
        !self.is_cleaned_up
    }

    /// `ServiceState::reset`; what the queue holds stays.
    fn reset(&mut self) {
        self.progress = Progress::default();
        self.is_edited = false;
    }
}

impl Kind {
    const fn of_call(&self) -> LoadBalancerCall {
        match self {
            Self::Ensure(_) => LoadBalancerCall::Ensure,
            Self::Update { .. } => LoadBalancerCall::Update,
            Self::Delete | Self::CleanUp => LoadBalancerCall::Delete,
        }
    }

    const fn has_targets(&self) -> bool {
        matches!(self, Self::Ensure(_) | Self::Update { .. })
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.kind {
            Kind::Ensure(_) => "Ensure",
            Kind::Update { .. } => "Update",
            Kind::Delete => "Delete",
            Kind::CleanUp => "Delete (of a Service that is gone)",
        })
    }
}

/// `term::may_concern`.
fn may_concern(service: &ServiceView) -> bool {
    Ownership::of(service, None) != Ownership::Unrelated
}

fn answer(call: LoadBalancerCall, disposition: Disposition) -> LoadBalancerAnswer {
    let has_address = call == LoadBalancerCall::Ensure && disposition == Disposition::Ready;
    let address = outrigger_core::service::Ingress {
        ip: "192.0.2.7".into(),
        ..Default::default()
    };
    let raw = RawAnswer {
        disposition: Some(disposition),
        ingress: has_address.then(|| vec![address]),
        ..RawAnswer::default()
    };
    raw.check(call, &ForbiddenAddresses::default())
        .expect("a legal answer")
}

/// The call had no answer: whether it worked is not known.
fn no_answer() -> Failure {
    Failure {
        class: ErrorClass::Unavailable,
        reason: "".into(),
        message: "".into(),
        effects: Effects::default(),
    }
}
