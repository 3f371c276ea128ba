//! The service-lb loop's decisions about one Service: what is to be done now, and what an answer
//! leads to.
//!
//! ```text
//!  changed, time came ─► next ─► Prepare ─► (patch) ─► next
//!                          ├──► Ensure ───► (call) ──► ensured ─┐
//!                          ├──► Update ───► (call) ──► updated ─┼─► Consequence
//!                          ├──► Delete ───► (call) ──► deleted ─┘
//!                          ├──► Hold, EndWait ► (patch, once)
//!                          └──► At, Idle
//! ```
//!
//! State that must outlive this process is on the Service: the finalizer before the first call
//! (S-30), the record of the load balancer's inputs in the same write as its addresses. So a crash
//! between cloud and API server repeats a call that states the wanted state, and a restart over
//! what is settled does nothing.
//!
//! A cleanup asks for the deletion at once, not first whether there is something (S-40): an answer
//! ABSENT is as good, and the question can be wrong.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    ServiceView,
    capability::Capability,
    ownership::{Ownership, is_not_managed},
    patch_plan::StatusPatch,
    settled::{Comparison, Hash, SettledRecord},
};
use crate::{
    correlator::EventContent,
    effects::Effects,
    error_class::{ErrorClass, Requeue},
    targets::{Revision, Targets},
};

mod cause;
mod deletion;
mod hold;
mod mode;
mod outcome;
mod prepare;
mod targets;

pub use cause::{EnsureCause, Manner};
pub use hold::HoldReason;
use hold::end_wait;
pub use mode::Mode;

/// How long targets fail before [`super::condition::TARGETS_IN_STEP`] becomes `False`.
pub const TARGETS_GRACE: Duration = Duration::from_secs(30);

/// Facts beside the Service itself.
#[derive(Clone, Copy, Debug)]
pub struct ServiceFacts<'a> {
    /// The provider's declarations.
    pub capability: &'a Capability,
    /// The set that goes out now ([`crate::targets::ShrinkGuard`]).
    pub targets: &'a Targets,
    /// The set that every load balancer has, from before this process too. To be forgotten, where it
    /// is kept, before the first call with another set: the call may have worked and its answer be
    /// lost.
    pub applied: Option<&'a Revision>,
    /// The machine's time of day, for conditions: the clock of waits may have begun with a wrong one.
    pub time_of_day: Timestamp,
}

impl ServiceFacts<'_> {
    pub(super) fn ownership(&self, service: &ServiceView) -> Ownership {
        Ownership::of(service, Some(self.capability))
    }
}

/// The next step for a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until the Service, the targets or the provider change.
    Idle,
    /// Nothing until the Service or the provider changes, though the Service wants something.
    Hold {
        /// Why.
        why: HoldReason,
        /// To be written, unless it is on the Service already.
        patch: Option<StatusPatch>,
        /// To be sent once it is written.
        events: Vec<EventContent>,
    },
    /// Nothing, once this is written: what the Service waited for it does not want any more.
    EndWait(StatusPatch),
    /// The provider is at work: ask again then, unless the Service changes before.
    At(Timestamp),
    /// To be written before the provider is called; then ask for the next step.
    Prepare(StatusPatch),
    /// `EnsureLoadBalancer`, and its answer to [`Progress::ensured`].
    Ensure(Ensure),
    /// `UpdateLoadBalancerNodes`, with others that want the same, and the answer to
    /// [`Progress::updated`].
    Update,
    /// `DeleteLoadBalancer`, and its answer to [`Progress::deleted`].
    Delete {
        /// To be sent before the call.
        events: Vec<EventContent>,
    },
}

/// One call of `EnsureLoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensure {
    /// Why.
    pub cause: EnsureCause,
    /// Hash of its inputs, taken when the call is planned, since the Service may change meanwhile.
    pub hash: Hash,
    /// The targets it goes with.
    pub revision: Revision,
    /// How it is announced and paced.
    pub manner: Manner,
    /// To be sent before the call.
    pub events: Vec<EventContent>,
}

impl Ensure {
    /// The call goes out with these targets, which may be newer than those of the decision.
    pub fn set_targets(&mut self, targets: &Targets) {
        self.revision = targets.revision().clone();
        self.events = events(self.cause, self.manner, targets);
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure.
    pub class: ErrorClass,
    /// The provider's own reason, CamelCase, for a condition; may be empty.
    pub reason: Box<str>,
    /// For people, without changing parts.
    pub message: Box<str>,
    /// The provider's effects in the same answer.
    pub effects: Effects,
}

/// The consequence of an answer, or of none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consequence {
    /// To be written. If that fails, [`Progress::not_written`].
    pub patch: Option<StatusPatch>,
    /// To be sent once it is written.
    pub events: Vec<EventContent>,
    /// When to ask for the next step; none: done, and the back-off starts anew.
    pub requeue: Option<Requeue>,
}

/// State of one Service between calls. To be dropped with the Service (not Q-35), and with its UID;
/// a restart forgets it without harm.
///
/// Calls about one Service come one after the other, as from a queue that hands out each key once
/// at a time: targets too (not Q-8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    waits: Option<Waits>,
    /// No further Ensure for these inputs: not managed, or invalid.
    done: Option<Hash>,
    /// To be ensured for a reason that is not on the Service.
    pending: Option<EnsureCause>,
    targets: Has,
    targets_fail_since: Option<Timestamp>,
}

/// Which targets a load balancer has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Has {
    /// Those of [`ServiceFacts::applied`].
    #[default]
    Inherited,
    /// These.
    Revision(Revision),
    /// Others were sent, with an unknown result.
    Unknown,
}

/// The provider is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waits {
    on: Work,
    until: Timestamp,
    manner: Manner,
}

/// At what. Anything else does not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// With these inputs and targets.
    Ensure(Hash, Revision),
    Update(Revision),
    Delete,
}

impl Progress {
    /// The next step for `service`. To be asked whenever it changed, when the targets changed, and
    /// when [`Step::At`] or [`Consequence::requeue`] has come.
    pub fn next(&self, now: Timestamp, service: &ServiceView, facts: &ServiceFacts<'_>) -> Step {
        match facts.ownership(service) {
            Ownership::Provide | Ownership::Cleanup if service.is_paused() => {
                self.hold(service, HoldReason::Paused, facts)
            }
            Ownership::Provide | Ownership::Cleanup if let Some(shed) = &service.shed => {
                self.hold(service, HoldReason::TooLarge(**shed), facts)
            }
            Ownership::Provide => self.provide(now, service, facts),
            Ownership::Cleanup => self.clean_up(now),
            Ownership::Hold => self.hold(service, HoldReason::ClassNotServed, facts),
            Ownership::WaitOver => end_wait(service, facts).map_or(Step::Idle, Step::EndWait),
            Ownership::Undecided | Ownership::Foreign | Ownership::Unrelated => Step::Idle,
        }
    }

    /// The next step for the load balancer that a Service left behind
    /// ([`Ownership::may_be_ours`]), or for one that wants a cleanup.
    pub fn clean_up(&self, now: Timestamp) -> Step {
        match self.waits_on(&Work::Delete) {
            Some(waits) if now < waits.until => Step::At(waits.until),
            Some(_) => Step::Delete { events: Vec::new() },
            None => Step::Delete {
                events: vec![EventContent::deleting()],
            },
        }
    }

    /// `service` was changed just now. One that has no record of what its load balancer was made from
    /// would else be background work, and its change with it.
    pub fn edited(&mut self, service: &ServiceView, capability: &Capability) {
        let ownership = Ownership::of(service, Some(capability));
        if self.pending.is_none() && ownership == Ownership::Provide {
            let cause = self.cause(service, Hash::of(service, capability), capability);
            self.pending = cause
                .filter(|cause| cause.manner() == Manner::Background)
                .map(|_| EnsureCause::Changed);
        }
    }

    /// The provider is another process now, perhaps a new version or configuration: what it had
    /// refused or begun is asked for anew.
    pub fn provider_changed(&mut self) {
        self.done = None;
        self.waits = None;
    }

    /// The provider is another process now, and the last one did not manage the Service: it is asked, as for
    /// another configuration.
    pub fn ask_whether_managed(&mut self) {
        self.pending.get_or_insert(EnsureCause::Reconfigured);
    }

    /// The load balancer may have gone with the provider's process: it is ensured though its record
    /// is settled.
    pub fn state_lost(&mut self) {
        self.provider_changed();
        self.pending.get_or_insert(EnsureCause::StateLost);
    }

    /// Whether the provider is at work and will be asked again.
    pub const fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }

    /// An [`Consequence::patch`] was not written: the answer is asked for once more (S-38).
    pub fn not_written(&mut self) {
        self.done = None;
        self.waits = None;
        self.pending = Some(EnsureCause::NotWritten);
    }

    fn provide(&self, now: Timestamp, service: &ServiceView, facts: &ServiceFacts<'_>) -> Step {
        if let Some(patch) = self.prepare(service, facts) {
            return Step::Prepare(patch);
        }
        let hash = Hash::of(service, facts.capability);
        if let Some(waits) = self.waits_on_ensure(hash)
            && now < waits.until
            && self.pending.is_none()
        {
            // The provider asked for time for its own work: other targets than it works on do not wait.
            return match &waits.on {
                Work::Ensure(_, sent) if sent == facts.targets.revision() => Step::At(waits.until),
                _ if self.needs_targets(service, facts) => Step::Update,
                _ => Step::At(waits.until),
            };
        }
        match self.reason(service, hash, facts) {
            Some((cause, manner)) => Step::Ensure(ensure(cause, hash, manner, facts.targets)),
            None => self.targets(now, service, facts),
        }
    }

    /// Why the load balancer is to be ensured, if it is, and how.
    fn reason(
        &self,
        service: &ServiceView,
        hash: Hash,
        facts: &ServiceFacts<'_>,
    ) -> Option<(EnsureCause, Manner)> {
        let waits = self.waits_on_ensure(hash);
        let cause = match (waits, self.pending) {
            (Some(_), _) => EnsureCause::Continued,
            (None, Some(cause)) if cause.manner() != Manner::Announced => {
                // A change of the Service is announced as ever.
                let announced = self
                    .cause(service, hash, facts.capability)
                    .filter(|cause| cause.manner() == Manner::Announced);
                announced.unwrap_or(cause)
            }
            (None, Some(cause)) => cause,
            (None, None) => self.cause(service, hash, facts.capability)?,
        };
        let manner = waits.map_or_else(|| cause.manner(), |waits| waits.manner);
        Some((cause, manner))
    }

    /// Why the load balancer is to be ensured, by the record on the Service.
    fn cause(
        &self,
        service: &ServiceView,
        hash: Hash,
        capability: &Capability,
    ) -> Option<EnsureCause> {
        if self.done == Some(hash) {
            return None;
        }
        let record = SettledRecord::own(service, capability);
        let has_addresses = !service.ingress.is_empty();
        match record.map(|record| record.compare(service, capability)) {
            None if has_addresses => Some(EnsureCause::Unrecorded),
            Some(Comparison::Settled) if has_addresses || is_not_managed(service) => None,
            None | Some(Comparison::Unknown | Comparison::Settled) => Some(EnsureCause::New),
            Some(Comparison::Changed) => Some(EnsureCause::Changed),
            Some(Comparison::Reconfigured) => Some(EnsureCause::Reconfigured),
        }
    }

    fn waits_on(&self, work: &Work) -> Option<&Waits> {
        self.waits.as_ref().filter(|waits| waits.on == *work)
    }

    /// The same of an Ensure with these inputs, whatever its targets.
    fn waits_on_ensure(&self, hash: Hash) -> Option<&Waits> {
        let is_it = |waits: &&Waits| matches!(waits.on, Work::Ensure(of, _) if of == hash);
        self.waits.as_ref().filter(is_it)
    }
}

fn ensure(cause: EnsureCause, hash: Hash, manner: Manner, targets: &Targets) -> Ensure {
    Ensure {
        cause,
        hash,
        revision: targets.revision().clone(),
        manner,
        events: events(cause, manner, targets),
    }
}

fn events(cause: EnsureCause, manner: Manner, targets: &Targets) -> Vec<EventContent> {
    if manner != Manner::Announced || cause == EnsureCause::Continued {
        return Vec::new();
    }
    let no_nodes = targets.is_empty().then(EventContent::no_nodes);
    [EventContent::ensuring()]
        .into_iter()
        .chain(no_nodes)
        .collect()
}

#[cfg(test)]
mod tests;
