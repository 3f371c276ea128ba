//! The service-lb loop's decisions about one Service: what is to be done now, and what an answer
//! leads to.
//!
//! ```text
//!  changed, time came ─► next ─► Ensure ─► (patch, call) ► ensured ─┐
//!                          ├──► Update ─► (call) ────────► updated ─┼─► Consequence
//!                          ├──► Delete ─► (call) ────────► deleted ─┘
//!                          ├──► Write, Hold ► (patch, once)
//!                          └──► At, Idle
//! ```
//!
//! State that must outlive this process is on the Service: the finalizer before the first call
//! (S-30), the hash of the load balancer's inputs in the same write as its addresses, and no hash while
//! a call for other inputs may have worked. So a crash between cloud and API server repeats a call that
//! states the desired state, and a restart over what is settled does nothing.
//!
//! A cleanup calls the deletion immediately and does not ask before whether there is something (S-40): an
//! answer ABSENT is as good, and the question can be wrong.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Ingress, ServiceView,
    answer::LoadBalancerAnswer,
    capability::Capability,
    condition::{ACCEPTED, PROVISIONED, WAITING},
    last_applied::{Comparison, Hash, LastApplied, RecordDigest},
    ownership::{Ownership, is_claimed, is_not_managed},
    patch_plan::{PatchDraft, StatusPatch},
};
use crate::{
    condition::Status,
    effects::Effects,
    error_class::{ErrorClass, Requeue},
    event::EventContent,
    repairs::Repairs,
    targets::{Revision, Targets},
};

mod cause;
mod deletion;
mod hold;
mod outcome;
mod targets;

pub use cause::{EnsureCause, Manner};
pub use hold::HoldReason;
use hold::hold;

/// How long targets fail before [`super::condition::TARGETS_IN_SYNC`] becomes `False`.
pub const TARGETS_GRACE: Duration = Duration::from_secs(30);

/// The inputs of a decision beside the Service itself.
#[derive(Clone, Copy, Debug)]
pub struct ServiceFacts<'a> {
    /// The provider's declarations.
    pub capability: &'a Capability,
    /// The targets of this Service that go out now ([`crate::targets::TargetPool`]).
    pub targets: &'a Revision,
    /// The machine's time of day, for conditions: the clock of waits may have begun with a wrong one.
    pub time_of_day: Timestamp,
}

impl ServiceFacts<'_> {
    pub(crate) fn ownership(&self, service: &ServiceView) -> Ownership {
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
    /// To be written; then ask for the next step.
    Write(StatusPatch),
    /// The provider is at work: ask again then, unless the Service changes before.
    At(Timestamp),
    /// `EnsureLoadBalancer`, and its answer to [`Progress::ensured`].
    Ensure(Ensure),
    /// `UpdateLoadBalancerNodes`, and the answer to [`Progress::updated`].
    Update,
    /// `DeleteLoadBalancer`, and its answer to [`Progress::deleted`].
    Delete {
        /// To be sent before the call.
        events: Vec<EventContent>,
    },
}

/// A call of `EnsureLoadBalancer`, with all that is needed to make it and to read its answer.
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
    /// True if the load balancer is to be updated first: targets do not wait for an Ensure in the background.
    pub needs_targets: bool,
    /// To be written before the call.
    pub prepare: Option<StatusPatch>,
    /// To be sent before the call.
    pub events: Vec<EventContent>,
}

impl Ensure {
    /// The call goes out with these targets, which may be newer than those of the decision.
    pub fn set_targets(&mut self, targets: &Targets) {
        self.revision = targets.revision().clone();
        self.events = events(self.cause, self.manner, targets.is_empty());
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure.
    pub class: ErrorClass,
    /// The provider's own reason, CamelCase, for a condition; may be empty.
    pub reason: Box<str>,
    /// For operators, without changing parts.
    pub message: Box<str>,
    /// The provider's effects in the same answer.
    pub effects: Effects,
}

/// A call about a load balancer.
#[derive(Clone, Copy, Debug)]
pub enum BalancerCall<'a> {
    /// `EnsureLoadBalancer`, by this step.
    Ensure(&'a Ensure),
    /// `UpdateLoadBalancerNodes` with these targets.
    Update(&'a Targets),
    /// `DeleteLoadBalancer`, of a Service that the API server still has.
    Delete,
}

impl BalancerCall<'_> {
    /// Its name in an explanation.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ensure(_) => "ensure",
            Self::Update(_) => "update",
            Self::Delete => "delete",
        }
    }
}

/// The consequence of an answer, or of none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consequence {
    /// To be written. If that fails, [`Progress::not_written`].
    pub patch: Option<StatusPatch>,
    /// To be sent once it is written.
    pub events: Vec<EventContent>,
    /// When to ask for the next step; none: done, and the back-off starts again.
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
    /// The record on the Service as this term knows it, once it has changed.
    record: Option<RecordDigest>,
    /// A record and addresses that another client has undone.
    undone: Option<Written>,
    repairs: Repairs,
    /// The targets that its load balancer has; none: not known.
    sent: Option<Revision>,
    /// Since when it does not take its targets.
    targets_fail_since: Option<Timestamp>,
}

/// A record with a hash and its addresses, as they were on the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    record: LastApplied,
    ingress: Box<[Ingress]>,
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

/// A Service beside the record of its load balancer, compared once for a decision.
struct Standing {
    hash: Hash,
    record: Option<LastApplied>,
    comparison: Option<Comparison>,
}

impl Standing {
    fn of(service: &ServiceView, capability: &Capability) -> Self {
        Self::by(LastApplied::own(service, capability), service, capability)
    }

    fn by(record: Option<LastApplied>, service: &ServiceView, capability: &Capability) -> Self {
        let hash = Hash::of(service, capability);
        Self {
            hash,
            comparison: record
                .as_ref()
                .map(|record| record.compare(service, capability, hash)),
            record,
        }
    }
}

/// Returns true if `service` is not what its load balancer was made from. A Service that is too large is not known to be another.
fn is_changed(service: &ServiceView, capability: &Capability) -> bool {
    !service.is_too_large
        && Standing::of(service, capability).comparison == Some(Comparison::Changed)
}

impl Progress {
    /// The next step for `service`. To be asked whenever it changed, when the targets changed, and
    /// when [`Step::At`] or [`Consequence::requeue`] has come.
    pub fn next(&self, now: Timestamp, service: &ServiceView, facts: &ServiceFacts<'_>) -> Step {
        let hold = |why| {
            let is_settled = self.has_targets(facts) && !is_changed(service, facts.capability);
            hold(service, why, is_settled, facts)
        };
        match facts.ownership(service) {
            Ownership::Provide | Ownership::Cleanup if service.is_paused() => {
                hold(HoldReason::Paused)
            }
            Ownership::Provide | Ownership::Cleanup if service.is_too_large => {
                hold(HoldReason::TooLarge)
            }
            Ownership::Provide if service.node_selector().is_err() => {
                hold(HoldReason::InvalidAnnotation)
            }
            Ownership::Provide => self.provide(now, service, facts),
            Ownership::Cleanup => self.clean_up(now),
            Ownership::Hold => hold(HoldReason::ClassNotServed),
            Ownership::WaitOver => {
                // It does not want any more what it waited for.
                let mut draft = PatchDraft::over(service, facts.time_of_day);
                draft.remove_condition(WAITING);
                draft.finish().map_or(Step::Idle, Step::Write)
            }
            Ownership::Undecided | Ownership::Foreign | Ownership::Unrelated => Step::Idle,
        }
    }

    /// The consequence of the answer to `call`, or of none, for `service` as it is now, under the same UID as then.
    pub fn concluded(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        call: &BalancerCall<'_>,
        result: &Result<LoadBalancerAnswer, Box<Failure>>,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        let result = result.as_ref().map_err(Box::as_ref);
        match call {
            BalancerCall::Ensure(ensure) => self.ensured(now, service, ensure, result, facts),
            BalancerCall::Update(targets) => self.updated(now, service, targets, result, facts),
            BalancerCall::Delete => self.deleted(now, Some(service), result, facts),
        }
    }

    /// The next step for the load balancer that a Service orphaned
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

    /// `service` was changed just now: work that may wait in the background, or for another client, does not wait any longer.
    pub fn edited(&mut self, service: &ServiceView, capability: &Capability) {
        self.repairs = Repairs::default();
        // With another type in between it may have lost its load balancer.
        self.undone = None;
        let is_background = |cause: EnsureCause| cause.manner() == Manner::Background;
        if self.pending.is_none_or(is_background)
            && Ownership::of(service, Some(capability)) == Ownership::Provide
            && self
                .cause(service, &Standing::of(service, capability))
                .is_some_and(is_background)
        {
            self.pending = Some(EnsureCause::Changed);
        }
    }

    /// Another client has undone what this controller wrote to `old` ([`super::change::is_undone`]).
    pub fn undone(&mut self, old: &ServiceView) {
        let record = LastApplied::of(old).filter(LastApplied::has_hash);
        if let Some(record) = record.filter(|record| record.has_addresses(&old.ingress)) {
            let ingress = old.ingress.clone();
            self.undone = Some(Written { record, ingress });
        }
    }

    /// A [`StatusPatch`] that puts something right ([`StatusPatch::undone`]) is to be written: true if the other client has
    /// done it before.
    pub fn is_undone_again(&self, now: Timestamp) -> bool {
        self.repairs.is_again(now)
    }

    /// Such a patch is written.
    pub fn repaired(&mut self, now: Timestamp) {
        self.repairs.made(now);
    }

    /// The addresses of the load balancer, as far as is known: another client may have written the present ones.
    fn held<'a>(&'a self, service: &'a ServiceView) -> &'a [Ingress] {
        self.undone
            .as_ref()
            .map_or(&*service.ingress, |written| &*written.ingress)
    }

    /// The addresses to write again, where those of `service` are not those of its record and this term knows the latter.
    fn lost_addresses(&self, service: &ServiceView, standing: &Standing) -> Option<&[Ingress]> {
        let record = standing.record.as_ref()?;
        let addresses = &*self.undone.as_ref()?.ingress;
        let is_lost = !record.has_addresses(&service.ingress) && record.has_addresses(addresses);
        (is_lost && !is_not_managed(service)).then_some(addresses)
    }

    /// The provider is another process now, perhaps a new version or configuration: what it had
    /// refused or begun is asked for again.
    pub fn provider_changed(&mut self) {
        self.done = None;
        self.waits = None;
    }

    /// The record may not be true any more: another program has led, or the provider is another process now and
    /// the last one did not manage the Service. It is ensured as for another configuration.
    pub fn doubt(&mut self) {
        self.sent = None;
        self.pending.get_or_insert(EnsureCause::Reconfigured);
    }

    /// The store has another record than that of `old` ([`super::change::is_recorded_otherwise`]): our own, since the
    /// watch may show a write before it is answered, or that of an earlier leader, whose last writes had not arrived
    /// when this term began. [`Self::check_record`] tells them apart.
    pub fn record_changed(&mut self, old: &ServiceView) {
        self.record.get_or_insert_with(|| RecordDigest::of(old));
    }

    /// A write of our own gave `written` its record.
    pub fn record_written(&mut self, written: &ServiceView) {
        self.record = Some(RecordDigest::of(written));
    }

    /// To be called before a step of `service` is decided, while none of our writes to it is in flight: if an earlier
    /// leader has written its record during this term, that leader's call may have come after ours, or before.
    pub fn check_record(&mut self, service: &ServiceView) {
        let Some(expected) = &mut self.record else {
            return;
        };
        let now = RecordDigest::of(service);
        // No leader removes it from a Service that has a load balancer.
        let is_removed = self.undone.is_some() && LastApplied::of(service).is_none();
        if *expected != now && !is_removed {
            *expected = now;
            self.doubt();
        }
    }

    /// Returns true if the last inputs were refused: no further Ensure for them.
    pub const fn is_refused(&self) -> bool {
        self.done.is_some()
    }

    /// Returns true if the provider is at work and will be asked again.
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
        let record = self.record_of(service, facts);
        let standing = Standing::by(record, service, facts.capability);
        let patch = self.prepare(service, &standing, facts);
        let is_repair = |patch: &StatusPatch| patch.undone(service).is_some();
        let repair_due = self
            .repairs
            .due(now)
            .filter(|_| patch.as_ref().is_some_and(is_repair));
        let hash = standing.hash;
        let step = if let Some(waits) = self.waits_on_ensure(hash)
            && now < waits.until
            && self.pending.is_none()
        {
            // The provider asked for time for its own work: other targets than it works on do not wait.
            match &waits.on {
                Work::Ensure(_, sent) if sent == facts.targets => Step::At(waits.until),
                _ if self.needs_targets(service, facts) => Step::Update,
                _ => Step::At(waits.until),
            }
        } else if let Some((cause, manner)) = self.reason(service, &standing) {
            if let Some(due) = repair_due {
                return Step::At(due);
            }
            return Step::Ensure(Ensure {
                cause,
                hash,
                revision: facts.targets.clone(),
                manner,
                // Without finalizer or record the Service gets no call yet.
                needs_targets: manner == Manner::Background
                    && is_claimed(service, facts.capability)
                    && self.needs_targets(service, facts),
                prepare: patch,
                events: events(cause, manner, *facts.targets == Revision::of_none()),
            });
        } else if !self.needs_targets(service, facts) {
            Step::Idle
        } else {
            match self.waits_on(&Work::Update(facts.targets.clone())) {
                Some(waits) if now < waits.until => Step::At(waits.until),
                _ => Step::Update,
            }
        };
        match (patch, step, repair_due) {
            (None, step, _) => step,
            (Some(_), Step::Idle, Some(due)) => Step::At(due),
            (Some(_), Step::At(time), Some(due)) => Step::At(time.min(due)),
            // Targets do not wait for another client.
            (Some(patch), ..) => Step::Write(patch),
        }
    }

    /// The record, or the one that another client has removed: it is right as long as the load balancer has its targets.
    fn record_of(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> Option<LastApplied> {
        LastApplied::own(service, facts.capability).or_else(|| {
            let is_removed = LastApplied::of(service).is_none() && self.has_targets(facts);
            let removed = self.undone.as_ref().filter(|_| is_removed);
            removed.map(|written| written.record.clone())
        })
    }

    /// The finalizer and the record that names the owner (S-30, not Q-5); for other inputs than those of the
    /// last call the record loses its hash, so that after a crash the call is repeated. The condition of a
    /// wait that is over is removed.
    fn prepare(
        &self,
        service: &ServiceView,
        standing: &Standing,
        facts: &ServiceFacts<'_>,
    ) -> Option<StatusPatch> {
        let capability = facts.capability;
        let begun = || LastApplied::begun(service, capability);
        let record = match (&standing.record, standing.comparison) {
            (Some(_), Some(Comparison::Changed | Comparison::Unknown)) => Some(begun()),
            // Background work: the comparison of a period finds what a crash leaves.
            (Some(record), _) => Some(record.clone()),
            (None, _) => (!is_claimed(service, capability)).then(begun),
        };
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        if let Some(record) = record {
            draft.record(&record);
        }
        draft.remove_condition(WAITING);
        if standing.comparison == Some(Comparison::Same)
            && let Some(addresses) = self.lost_addresses(service, standing)
        {
            draft.ingress(addresses);
        }
        if !service.has_finalizer() {
            draft.add_finalizer();
            // An earlier condition may still be true.
            let pending = "Waiting for the provider";
            for (kind, status) in [(ACCEPTED, Status::Unknown), (PROVISIONED, Status::False)] {
                if service.condition(kind).is_none() {
                    draft.condition(kind, status, "Pending", pending);
                }
            }
        }
        draft.finish()
    }

    /// Why the load balancer is to be ensured, if it is, and how.
    fn reason(&self, service: &ServiceView, standing: &Standing) -> Option<(EnsureCause, Manner)> {
        if let Some(waits) = self.waits_on_ensure(standing.hash) {
            return Some((EnsureCause::Continued, waits.manner));
        }
        let by_record = || self.cause(service, standing);
        let cause = match self.pending {
            // A change of the Service is announced as ever.
            Some(cause) if cause.manner() != Manner::Announced => by_record()
                .filter(|cause| cause.manner() == Manner::Announced)
                .unwrap_or(cause),
            Some(cause) => cause,
            None => by_record()?,
        };
        Some((cause, cause.manner()))
    }

    /// Why the load balancer is to be ensured, by the record on the Service.
    fn cause(&self, service: &ServiceView, standing: &Standing) -> Option<EnsureCause> {
        if self.done == Some(standing.hash) {
            return None;
        }
        let has_addresses = !service.ingress.is_empty();
        match standing.comparison {
            None if has_addresses => Some(EnsureCause::Unrecorded),
            Some(Comparison::Same) => {
                let record = standing.record.as_ref();
                let is_settled = is_not_managed(service)
                    || record.is_some_and(|record| record.has_addresses(&service.ingress))
                    || self.lost_addresses(service, standing).is_some();
                (!is_settled).then_some(EnsureCause::AddressesLost)
            }
            // It was ready once, and its record has lost the hash since.
            Some(Comparison::Unknown) if has_addresses => Some(EnsureCause::Changed),
            None | Some(Comparison::Unknown) => Some(EnsureCause::New),
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

fn events(cause: EnsureCause, manner: Manner, has_no_targets: bool) -> Vec<EventContent> {
    if manner != Manner::Announced || cause == EnsureCause::Continued {
        return Vec::new();
    }
    let no_nodes = has_no_targets.then(EventContent::no_nodes);
    [EventContent::ensuring()]
        .into_iter()
        .chain(no_nodes)
        .collect()
}

#[cfg(test)]
mod tests;
