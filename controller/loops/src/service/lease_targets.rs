//! The record of targets on the Lease: the revision that every load balancer has whose Service has a hash.
//!
//! Once, and not on each Service: nodes that come and go must not write every Service.
//!
//! ```text
//!  begin (before each call) ─► does the Lease name other targets? ─► cleared, and the API server has said so ─► call
//!  name  (after the last answer) ◄── every load balancer with a hash has the targets that go out
//! ```
//!
//! A call is registered and the Lease looked at under one lock, under which the targets that go out change too. So a call
//! with former targets is in flight before others go out, and [`LeaseTargets::name`] finds it; or it begins again.

use outrigger_core::targets::{ANNOTATION_TARGETS, Inheritance, Revision, TargetsRecord};
use parking_lot::Mutex;
use tokio::sync::{self, Notify, futures::Notified};

use outrigger_kube::leader::{Handle, LeaseTerm};

/// Why a call does not begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Other targets go out now.
    Outdated,
    /// This process no longer leads.
    NotLeading,
}

pub(super) struct LeaseTargets {
    lease: Option<Handle>,
    /// `leaseTransitions` of this term.
    term: i32,
    /// The record at the beginning of this term, if it is believed.
    inherited: Option<TargetsRecord>,
    state: Mutex<State>,
    /// Locked while the annotation changes.
    writing: sync::Mutex<()>,
    progressed: Notify,
}

struct State {
    /// The targets that go out; none before the first are selected.
    current: Option<Revision>,
    /// The targets that the Lease names, or may name.
    named: Option<Revision>,
}

impl LeaseTargets {
    /// The record on `lease` as this term finds it. Without a Lease none is kept.
    pub(super) fn new(lease: Option<Handle>) -> Self {
        let term = lease.as_ref().and_then(|lease| {
            let leadership = lease.leadership();
            let leading = leadership.borrow();
            leading.leading().map(LeaseTerm::epoch)
        });
        let term = term.unwrap_or_default();
        let inherited = lease
            .as_ref()
            .and_then(|lease| lease.annotation(ANNOTATION_TARGETS))
            .and_then(|value| TargetsRecord::parse(&value))
            .filter(|record| record.is_believed(term));
        Self {
            lease,
            term,
            state: Mutex::new(State {
                current: None,
                named: inherited
                    .as_ref()
                    .and_then(|record| record.revision.clone()),
            }),
            inherited,
            writing: sync::Mutex::default(),
            progressed: Notify::new(),
        }
    }

    /// From now on these targets go out.
    pub(super) fn aim(&self, revision: &Revision) {
        self.state.lock().current = Some(revision.clone());
    }

    /// The knowledge at the beginning of the term, whose first targets have this revision.
    pub(super) fn inheritance(&self, revision: &Revision) -> Inheritance {
        match &self.inherited {
            Some(record) => record.inheritance(self.term, revision),
            None if self.lease.is_none() => Inheritance::TargetsUnknown,
            None => Inheritance::Nothing,
        }
    }

    /// Returns true if the Lease names these targets.
    pub(super) fn names(&self, revision: &Revision) -> bool {
        self.state.lock().named.as_ref() == Some(revision)
    }

    /// Await this before a call with targets of this revision. `register` is to leave a sign that the call is in flight, until
    /// its answer is written.
    pub(super) async fn begin(
        &self,
        revision: &Revision,
        register: impl FnOnce(),
    ) -> Result<(), NotBegun> {
        let is_clear = |state: &State| state.named.as_ref().is_none_or(|named| named == revision);
        {
            let state = self.state.lock();
            if state.current.as_ref() != Some(revision) {
                return Err(NotBegun::Outdated);
            }
            register();
            if is_clear(&state) {
                return Ok(());
            }
        }
        // Each call waits until the Lease is cleared, not the first one alone.
        let _writing = self.writing.lock().await;
        if is_clear(&self.state.lock()) {
            return Ok(());
        }
        self.clear().await
    }

    /// Which targets load balancers have is not known any more.
    pub(super) async fn doubt(&self) {
        let _writing = self.writing.lock().await;
        // A process that leads no longer says nothing.
        let _ = self.clear().await;
    }

    /// Removes the revision, and waits until the API server has acknowledged that.
    async fn clear(&self) -> Result<(), NotBegun> {
        if let Some(lease) = &self.lease {
            let cleared = lease.annotate(ANNOTATION_TARGETS, Some(self.value(None)));
            cleared.await.map_err(|_| NotBegun::NotLeading)?;
        }
        self.state.lock().named = None;
        Ok(())
    }

    fn value(&self, revision: Option<Revision>) -> String {
        let record = TargetsRecord {
            revision,
            term: self.term,
        };
        record.to_string()
    }

    /// A load balancer has other targets now, or there is one less to have them.
    pub(super) fn progressed(&self) {
        self.progressed.notify_one();
    }

    /// Waits for [`Self::progressed`].
    pub(super) fn progress(&self) -> Notified<'_> {
        self.progressed.notified()
    }

    /// Every load balancer whose Service has a hash has `revision`, and no call with others is in flight. Returns false if
    /// others go out meanwhile.
    pub(super) fn name(&self, revision: &Revision) -> bool {
        // A call with other targets clears the annotation; its end is progress.
        let Ok(_writing) = self.writing.try_lock() else {
            return false;
        };
        let mut state = self.state.lock();
        if state.current.as_ref() != Some(revision) {
            return false;
        }
        state.named = Some(revision.clone());
        if let Some(lease) = &self.lease {
            // Not awaited: if it is never written, the next leader sends these targets once more.
            let value = self.value(Some(revision.clone()));
            drop(lease.annotate(ANNOTATION_TARGETS, Some(value)));
        }
        true
    }
}
