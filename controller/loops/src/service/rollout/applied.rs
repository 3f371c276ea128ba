//! The revision of targets that every load balancer has, which is remembered on the Lease.
//!
//! Once, and not on each Service: nodes that come and go must not write every Service. The annotation is
//! cleared before the first call with other targets: the call may work, and its answer be lost with this
//! process.

use std::{collections::HashMap, time::Duration};

use outrigger_core::targets::Revision;
use parking_lot::Mutex;
use tokio::{
    sync::{self, Notify, futures::Notified},
    time::sleep,
};

use outrigger_kubernetes::leader::{Handle, NotAnnotated};

/// Annotation of the Lease with the revision of the targets that every load balancer has.
pub const TARGETS_ANNOTATION: &str = "outrigger.dev/load-balancer-targets";

/// How often the removal is tried while another client keeps a value that names targets.
const RETRY: Duration = Duration::from_secs(1);

/// The revision that a value of [`TARGETS_ANNOTATION`] names; none when it is empty.
pub fn stored_targets(value: &str) -> Option<Revision> {
    (!value.is_empty()).then(|| Revision::stored(value))
}

pub(in crate::service) struct Applied {
    state: Mutex<AppliedState>,
    /// Locked while the annotation changes.
    writing: sync::Mutex<()>,
    lease: Option<Handle>,
    progressed: Notify,
}

struct AppliedState {
    /// The targets that every load balancer has.
    applied: Option<Revision>,
    /// Number of updates in flight, by revision.
    in_flight: HashMap<Revision, usize>,
}

/// Guard of an update to one revision, from before the call until its result is written.
pub(in crate::service) struct UpdateInFlight<'a> {
    applied: &'a Applied,
    revision: Revision,
}

impl Drop for UpdateInFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.applied.state.lock();
        if let Some(count) = state.in_flight.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                state.in_flight.remove(&self.revision);
            }
        }
        drop(state);
        self.applied.progressed();
    }
}

impl Applied {
    pub(in crate::service) fn new(lease: Option<Handle>) -> Self {
        // Another program may have sent others.
        let own = lease.as_ref().filter(|lease| !lease.follows_another());
        let annotation = own.and_then(|lease| lease.annotation(TARGETS_ANNOTATION));
        Self {
            state: Mutex::new(AppliedState {
                applied: annotation.as_deref().and_then(stored_targets),
                in_flight: HashMap::new(),
            }),
            writing: sync::Mutex::default(),
            lease,
            progressed: Notify::new(),
        }
    }

    /// Returns true if every load balancer has these targets.
    pub(in crate::service) fn is(&self, revision: &Revision) -> bool {
        self.state.lock().applied.as_ref() == Some(revision)
    }

    /// The targets that every load balancer has.
    pub(in crate::service) fn revision(&self) -> Option<Revision> {
        self.state.lock().applied.clone()
    }

    /// Await this before a call with these targets, and keep the guard until its answer is written. Returns `None`
    /// if this process no longer leads.
    pub(in crate::service) async fn begin(
        &self,
        revision: &Revision,
    ) -> Option<UpdateInFlight<'_>> {
        let (update, is_applied) = self.register(revision);
        if is_applied {
            return Some(update);
        }
        // Each call waits until the annotation is cleared, not the first one alone.
        let _writing = self.writing.lock().await;
        if self.is(revision) {
            return Some(update);
        }
        self.clear().await?;
        self.state.lock().applied = None;
        Some(update)
    }

    /// Which targets load balancers have is not known any more.
    pub(in crate::service) async fn doubt(&self) {
        let _writing = self.writing.lock().await;
        if self.clear().await.is_some() {
            self.state.lock().applied = None;
        }
    }

    /// Removes the annotation. A policy that drops or empties it does no harm: the next start gives all load
    /// balancers their targets. If a policy keeps an earlier revision there, the next start would take those targets for
    /// applied: until it is gone no other targets go out, and the Lease has an event.
    async fn clear(&self) -> Option<()> {
        let Some(lease) = &self.lease else {
            return Some(());
        };
        loop {
            match lease.annotate(TARGETS_ANNOTATION, None).await {
                Ok(()) => return Some(()),
                Err(NotAnnotated::NotLeading) => return None,
                Err(NotAnnotated::Undone { actual }) => {
                    if actual.as_deref().and_then(stored_targets).is_none() {
                        return Some(());
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Also whether all have that revision already; both under one lock, so that no other revision is recorded
    /// in between.
    fn register(&self, revision: &Revision) -> (UpdateInFlight<'_>, bool) {
        let mut state = self.state.lock();
        *state.in_flight.entry(revision.clone()).or_default() += 1;
        let update = UpdateInFlight {
            applied: self,
            revision: revision.clone(),
        };
        (update, state.applied.as_ref() == Some(revision))
    }

    /// A load balancer has other targets now, or there is one less to have them.
    pub(in crate::service) fn progressed(&self) {
        self.progressed.notify_one();
    }

    /// Waits for [`Applied::progressed`].
    pub(in crate::service) fn progress(&self) -> Notified<'_> {
        self.progressed.notified()
    }

    /// Records that every load balancer has `revision`, if `all_have_it` and no update to another is in
    /// flight. Returns whether it did.
    pub(in crate::service) fn record(
        &self,
        revision: &Revision,
        all_have_it: impl FnOnce() -> bool,
    ) -> bool {
        // A call with other targets clears the annotation; its end is progress.
        let Ok(_writing) = self.writing.try_lock() else {
            return false;
        };
        // A result is written before its update is in flight no more. The second look finds calls that began
        // during the first one.
        let others = |state: &AppliedState| state.in_flight.keys().any(|other| other != revision);
        if others(&self.state.lock()) || !all_have_it() {
            return false;
        }
        {
            let mut state = self.state.lock();
            if others(&state) {
                return false;
            }
            state.applied = Some(revision.clone());
        }
        if let Some(lease) = &self.lease {
            let text = Some(revision.as_str().to_owned());
            // Not awaited: if it is never written, the next leader sends these targets once more.
            let _ = lease.start_annotating(TARGETS_ANNOTATION, text);
        }
        true
    }
}
