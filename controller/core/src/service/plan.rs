//! The service-lb loop's decisions about one Service: what is to be done now, and what an answer leads to.
//!
//! ```text
//!  changed, time came ─► next ─┬► Ensure, Update, Delete ─► (call) ─► concluded ─► Consequence
//!                              ├► Write ─► (patch) ─► next
//!                              ├► Hold ─► (patch, once)
//!                              └► At, Idle
//! ```
//!
//! The loop keeps one [`Progress`] for each Service and lease term. It asks [`Progress::next`], carries out the one
//! [`Step`], and passes the answer to [`Progress::concluded`]; it reports each write before it is sent
//! ([`Progress::write`]), and one that failed ([`Progress::not_written`]). Calls about one Service come one after the
//! other.
//!
//! State that must outlive this process is on the Service: the finalizer before the first call (S-30), the hash of the load
//! balancer's inputs in the same write as its addresses, and no hash while a call for other inputs may have worked. So a
//! crash between cloud and API server repeats a call that states the desired state, and a restart over what is settled does
//! nothing.
//!
//! A cleanup calls the deletion immediately and does not ask before whether there is something (S-40): an answer ABSENT is
//! as good, and the question can be wrong.
//!
//! ```
//! use outrigger_core::{
//!     forbidden_addresses::ForbiddenAddresses,
//!     service::{
//!         Ingress, ServiceView,
//!         answer::{Disposition, LoadBalancerCall, RawAnswer},
//!         capability::Capability,
//!         patch_plan::FinalizerChange,
//!         plan::{BalancerCall, Progress, ServiceFacts, Step},
//!     },
//!     targets::TargetPool,
//! };
//! use serde_json::json;
//!
//! let service: ServiceView = serde_json::from_value(json!({
//!     "metadata": {"namespace": "shop", "name": "web", "uid": "uid-1"},
//!     "spec": {"type": "LoadBalancer", "ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}]},
//! }))?;
//! let capability = Capability { provider: "example".into(), ..Capability::default() };
//! let targets = TargetPool::default().targets_of(&service);
//! let now = "2026-01-01T00:00:00Z".parse()?;
//! let facts = ServiceFacts {
//!     capability: &capability,
//!     targets: targets.revision(),
//!     now,
//!     time_of_day: now,
//! };
//! let mut progress = Progress::default();
//!
//! // The finalizer is written before the first call.
//! let Step::Write(patch) = progress.next(&service, &facts) else {
//!     panic!("the Service has no finalizer")
//! };
//! assert_eq!(patch.finalizer, Some(FinalizerChange::Add));
//!
//! let service = patch.applied_to(&service, "2");
//! let Step::Ensure(ensure) = progress.next(&service, &facts) else {
//!     panic!("there is no load balancer yet")
//! };
//! let answer = RawAnswer {
//!     disposition: Some(Disposition::Ready),
//!     ingress: Some(vec![Ingress { ip: "192.0.2.7".into(), ..Ingress::default() }]),
//!     ..RawAnswer::default()
//! };
//! let answer = answer.check(LoadBalancerCall::Ensure, &ForbiddenAddresses::default())?;
//! let call = BalancerCall::Ensure(&ensure, &targets);
//! let consequence = progress.concluded(&service, &call, &Ok(answer), &facts);
//!
//! // Addresses, conditions and the last-applied hash are one patch; then nothing is left to do.
//! let patch = consequence.patch.ok_or("the answer is written")?;
//! let service = patch.applied_to(&service, "3");
//! assert_eq!(&*service.ingress[0].ip, "192.0.2.7");
//! assert_eq!(progress.next(&service, &facts), Step::Idle);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Ingress, ServiceView,
    answer::LoadBalancerAnswer,
    capability::Capability,
    condition::{ACCEPTED, PROVISIONED, WAITING},
    last_applied::{Comparison, Hash, LastApplied},
    options::LoadBalancerOptions,
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

mod deletion;
mod ensure;
mod hold;
mod outcome;
mod targets;

pub use ensure::{Ensure, EnsureCause, Manner};
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
    /// By the clock of waits.
    pub now: Timestamp,
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
    /// `EnsureLoadBalancer`.
    Ensure(Ensure),
    /// `UpdateLoadBalancerNodes`.
    Update,
    /// `DeleteLoadBalancer`.
    Delete {
        /// To be sent before the call.
        events: Vec<EventContent>,
    },
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
    /// `EnsureLoadBalancer` by this step, with these targets.
    Ensure(&'a Ensure, &'a Targets),
    /// `UpdateLoadBalancerNodes` with these targets.
    Update(&'a Targets),
    /// `DeleteLoadBalancer`.
    Delete {
        /// True if the API server has the Service no more, or another one under its name.
        is_gone: bool,
    },
}

impl BalancerCall<'_> {
    /// Its name in an explanation.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ensure(..) => "ensure",
            Self::Update(_) => "update",
            Self::Delete { .. } => "delete",
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

/// A [`Consequence`] in the making.
struct Conclusion<'a> {
    service: &'a ServiceView,
    facts: &'a ServiceFacts<'a>,
    draft: PatchDraft<'a>,
    events: Vec<EventContent>,
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
    /// Record and addresses as this term found them on the Service, or wrote them there last; none: it has not looked.
    written: Option<BalancerRecord>,
    repairs: Repairs,
    /// The targets that its load balancer has; none: not known.
    sent: Option<Revision>,
    /// Since when it does not take its targets.
    targets_fail_since: Option<Timestamp>,
}

/// Record and addresses of a load balancer on its Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerRecord {
    record: Option<LastApplied>,
    ingress: Box<[Ingress]>,
}

impl BalancerRecord {
    /// Those of `service`.
    pub fn of(service: &ServiceView) -> Self {
        Self {
            record: LastApplied::of(service),
            ingress: service.ingress.clone(),
        }
    }

    /// The record, if it has a hash.
    fn settled(&self) -> Option<&LastApplied> {
        self.record.as_ref().filter(|record| record.has_hash())
    }
}

/// The provider is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waits {
    on: Work,
    until: Timestamp,
}

impl Waits {
    fn brings(&self, targets: &Revision) -> bool {
        matches!(&self.on, Work::Ensure { revision, .. } if revision == targets)
    }
}

/// Work that the provider has asked for time for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Ensure {
        hash: Hash,
        revision: Revision,
        manner: Manner,
    },
    Delete,
}

/// A Service beside the record of its load balancer, compared once for a decision.
struct Standing {
    hash: Hash,
    record: Option<LastApplied>,
    comparison: Option<Comparison>,
}

/// Returns true if `service` is not what its load balancer was made from. A Service that is too large is not known to be
/// another.
fn is_changed(service: &ServiceView, capability: &Capability) -> bool {
    let is_other = |record: LastApplied| {
        let hash = Hash::of(service, capability);
        record.compare(service, capability, hash) == Comparison::Changed
    };
    !service.is_too_large && LastApplied::own(service, capability).is_some_and(is_other)
}

impl Progress {
    /// The next step for `service`. To be asked whenever it changed, when the targets changed, and
    /// when [`Step::At`] or [`Consequence::requeue`] has come.
    pub fn next(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> Step {
        let ownership = facts.ownership(service);
        if let Some(why) = HoldReason::of(service, ownership) {
            let is_settled = self.has_targets(facts) && !is_changed(service, facts.capability);
            return hold(service, why, is_settled, facts);
        }
        match ownership {
            Ownership::Provide => self.provide(service, facts),
            Ownership::Cleanup => self.clean_up(facts.now),
            _ => Step::Idle,
        }
    }

    /// The consequence of the answer to `call`, or of none, for `service` as it is now, under the same UID as then. An answer
    /// to a deletion that proves nothing ([`Failure::of_withdrawn`]) is to be passed as that failure.
    pub fn concluded(
        &mut self,
        service: &ServiceView,
        call: &BalancerCall<'_>,
        result: &Result<LoadBalancerAnswer, Box<Failure>>,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        let effects = match result {
            Ok(answer) => &answer.effects,
            Err(failure) => &failure.effects,
        };
        let mut conclusion = Conclusion::new(service, facts, effects);
        let to = &mut conclusion;
        let requeue = match (call, result) {
            (BalancerCall::Delete { is_gone }, result) => {
                self.deleted(to, *is_gone, result.as_ref().map_err(Box::as_ref))
            }
            // Deleted, or of another type, meanwhile: what was made goes again.
            _ if facts.ownership(service) != Ownership::Provide => {
                self.waits = None;
                return Consequence {
                    requeue: Some(outcome::AT_ONCE),
                    ..Consequence::default()
                };
            }
            (BalancerCall::Ensure(ensure, targets), Ok(answer)) => {
                self.ensured(to, ensure, targets.revision(), answer)
            }
            (BalancerCall::Ensure(ensure, targets), Err(failure)) => {
                Some(self.ensure_failed(to, ensure, targets.revision(), failure))
            }
            (BalancerCall::Update(targets), Ok(answer)) => self.updated(to, targets, answer),
            (BalancerCall::Update(targets), Err(failure)) => {
                Some(self.update_failed(to, targets, failure))
            }
        };
        Consequence {
            patch: conclusion.draft.finish(),
            events: conclusion.events,
            requeue,
        }
    }

    /// The next step for the load balancer that a Service orphaned
    /// ([`Ownership::may_be_ours`]), or for one that wants a cleanup.
    pub fn clean_up(&self, now: Timestamp) -> Step {
        match &self.waits {
            Some(waits) if waits.on == Work::Delete && now < waits.until => Step::At(waits.until),
            Some(waits) if waits.on == Work::Delete => Step::Delete { events: Vec::new() },
            _ => Step::Delete {
                events: vec![EventContent::deleting()],
            },
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
        let written = self.written.as_ref();
        let record = written.and_then(BalancerRecord::settled);
        self.lost_addresses(service, record)
            .unwrap_or(&service.ingress)
    }

    /// The addresses to write again, where those of `service` are not those of its record and this term knows the latter.
    fn lost_addresses(
        &self,
        service: &ServiceView,
        record: Option<&LastApplied>,
    ) -> Option<&[Ingress]> {
        let (record, addresses) = (record?, &*self.written.as_ref()?.ingress);
        let is_lost = !record.has_addresses(&service.ingress) && record.has_addresses(addresses);
        (is_lost && !is_not_managed(service)).then_some(addresses)
    }

    /// Returns true if another client has removed the record of a settled load balancer.
    fn is_record_removed(&self, service: &ServiceView) -> bool {
        let written = self.written.as_ref();
        written.and_then(BalancerRecord::settled).is_some() && LastApplied::of(service).is_none()
    }

    /// The provider is another process now, perhaps a new version or configuration: what it had refused or begun for
    /// `service`, or does not manage, is asked for again, and so are options that it serves no longer, since their refusal is
    /// shown.
    pub fn provider_changed(&mut self, service: &ServiceView, capability: Option<&Capability>) {
        self.done = None;
        self.waits = None;
        if is_not_managed(service) {
            self.doubt();
        } else if capability.is_some_and(|served| LoadBalancerOptions::of(service, served).is_err())
        {
            self.pending.get_or_insert(EnsureCause::Reconfigured);
        }
    }

    /// The record may not be true any more, such as one of another program. The Service is ensured as for another
    /// configuration.
    pub fn doubt(&mut self) {
        self.sent = None;
        self.pending.get_or_insert(EnsureCause::Reconfigured);
    }

    /// To be called before a write of this controller, with the Service as it makes it, since the watch may show that before
    /// the write is answered; and after a write that failed, with the former value that the first call has returned.
    pub const fn write(&mut self, written: Option<BalancerRecord>) -> Option<BalancerRecord> {
        std::mem::replace(&mut self.written, written)
    }

    /// Returns true if `service` has another record than this term has found or written.
    pub fn has_foreign_record(&self, service: &ServiceView) -> bool {
        let written = self.written.as_ref();
        written.is_some_and(|written| written.record != LastApplied::of(service))
    }

    /// To be called before a step of `service` is decided, while none of our writes to it is in flight: if an earlier
    /// leader has written its record during this term, that leader's call may have come after ours, or before. No leader
    /// removes it from a Service that has a load balancer.
    pub fn check_record(&mut self, service: &ServiceView) {
        let is_foreign = self.has_foreign_record(service) && !self.is_record_removed(service);
        if is_foreign {
            self.doubt();
        }
        if is_foreign || self.written.is_none() {
            self.written = Some(BalancerRecord::of(service));
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

    fn provide(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> Step {
        let standing = self.standing(service, facts);
        let needs_targets = self.needs_targets(service, facts);
        let step = match (&self.waits, self.reason(service, &standing)) {
            // The provider asked for time for its own work: other targets than it works on do not wait.
            (Some(waits), Some(ensure))
                if ensure.cause == EnsureCause::Continued
                    && facts.now < waits.until
                    && self.pending.is_none() =>
            {
                if needs_targets && !waits.brings(facts.targets) {
                    Step::Update
                } else {
                    Step::At(waits.until)
                }
            }
            // Targets do not wait for work in the background.
            (_, Some(ensure)) if ensure.manner == Manner::Announced || !needs_targets => {
                Step::Ensure(ensure)
            }
            _ if needs_targets => Step::Update,
            _ => Step::Idle,
        };
        let Some(patch) = self.prepare(service, &standing, facts) else {
            return step;
        };
        let repair_due = self.repairs.due(facts.now);
        let repair_due = repair_due.filter(|_| patch.undone(service).is_some());
        match (step, repair_due) {
            (Step::Idle | Step::Ensure(_), Some(due)) => Step::At(due),
            (Step::At(time), Some(due)) => Step::At(time.min(due)),
            // Targets do not wait for another client.
            _ => Step::Write(patch),
        }
    }

    /// The Service beside its record, or beside one that another client has removed: that is right as long as the load
    /// balancer has its targets.
    fn standing(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> Standing {
        let record = LastApplied::own(service, facts.capability).or_else(|| {
            let is_right = self.is_record_removed(service) && self.has_targets(facts);
            let written = self.written.as_ref().filter(|_| is_right)?;
            written.record.clone()
        });
        let hash = Hash::of(service, facts.capability);
        let compare = |record: &LastApplied| record.compare(service, facts.capability, hash);
        Standing {
            hash,
            comparison: record.as_ref().map(compare),
            record,
        }
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
            && let Some(addresses) = self.lost_addresses(service, standing.record.as_ref())
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

    /// How the load balancer of `service` is to be ensured, if it is, whatever comes before.
    pub fn ensure(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> Option<Ensure> {
        self.reason(service, &self.standing(service, facts))
    }

    fn reason(&self, service: &ServiceView, standing: &Standing) -> Option<Ensure> {
        let hash = standing.hash;
        if let Some(waits) = &self.waits
            && let Work::Ensure {
                hash: of, manner, ..
            } = waits.on
            && of == hash
        {
            return Some(Ensure {
                cause: EnsureCause::Continued,
                hash,
                manner,
            });
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
        Some(Ensure {
            cause,
            hash,
            manner: cause.manner(),
        })
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
                    || self.lost_addresses(service, record).is_some();
                (!is_settled).then_some(EnsureCause::AddressesLost)
            }
            // It was ready once, and its record has lost the hash since.
            Some(Comparison::Unknown) if has_addresses => Some(EnsureCause::Changed),
            None | Some(Comparison::Unknown) => Some(EnsureCause::New),
            Some(Comparison::Changed) => Some(EnsureCause::Changed),
            Some(Comparison::Reconfigured) => Some(EnsureCause::Reconfigured),
        }
    }
}

#[cfg(test)]
mod tests;
