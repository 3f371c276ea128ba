//! The service-lb loop in one lease term.

mod answers;
mod calls;
mod rollout;
mod steps;
mod sync;

use jiff::Timestamp;
use outrigger_core::{
    error_class::Requeue,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerCall},
        change::{begins_to_wait, is_recorded_otherwise, needs_sync},
        ownership::{Ownership, is_not_managed, lost_finalizer},
        plan::{Ensure, Progress},
    },
};

use super::{
    Services, State, UIDS, place,
    server::{Answer, Change, Versioned, Write},
};
use crate::hashed::Hashed;

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
                        let is_recorded = is_recorded_otherwise(&old, &new);
                        let is_reason = is_edited || is_recorded || begins_to_wait(&old, &new);
                        let concerns = may_concern(&new);
                        key.is_edited |= is_edited && concerns;
                        key.is_due |= is_reason && concerns;
                        if is_recorded && concerns {
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
