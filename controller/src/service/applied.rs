//! Which targets every load balancer has, and the Lease's word about it.
//!
//! It is remembered once, on the Lease, and not on each Service: nodes that come and go must not write
//! every Service. It is forgotten before the first call that gives other targets: the call may work and
//! its answer be lost with this process.

use std::{collections::HashMap, sync::OnceLock};

use outrigger_core::targets::{Revision, Targets};
use parking_lot::Mutex;
use tokio::sync::{self, Notify, futures::Notified};

use crate::leader::Handle;

/// Annotation of the Lease with the revision of the targets that every load balancer has.
pub const TARGETS_ANNOTATION: &str = "outrigger.dev/load-balancer-targets";

/// Its value once that is forgotten. A Lease without the annotation is one of a cluster that is new to this
/// controller.
const FORGOTTEN: &str = "";

/// The revision that a value of [`TARGETS_ANNOTATION`] names; none once it is forgotten.
pub fn stored_targets(value: &str) -> Option<Revision> {
    (value != FORGOTTEN).then(|| Revision::stored(value))
}

pub(super) struct Applied {
    known: Mutex<Known>,
    /// Held while the value on the Lease changes.
    telling: sync::Mutex<()>,
    /// Targets presumed of load balancers that this controller has never made; none: others were going out
    /// when this lease term began.
    at_start: OnceLock<Option<Revision>>,
    lease: Option<Handle>,
    progressed: Notify,
}

struct Known {
    /// The targets that every load balancer has.
    applied: Option<Revision>,
    /// Revisions that are being given to load balancers, and to how many.
    given: HashMap<Revision, usize>,
}

/// Some load balancer is being given a revision, as long as this lives: until what came of it is
/// known and written.
pub(super) struct UpdateInFlight<'a> {
    applied: &'a Applied,
    revision: Revision,
}

impl Drop for UpdateInFlight<'_> {
    fn drop(&mut self) {
        let mut known = self.applied.known.lock();
        if let Some(count) = known.given.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                known.given.remove(&self.revision);
            }
        }
        drop(known);
        self.applied.progressed();
    }
}

impl Applied {
    pub(super) fn new(lease: Option<Handle>) -> Self {
        let remembered = lease
            .as_ref()
            .and_then(|lease| lease.annotation(TARGETS_ANNOTATION));
        let applied = remembered.as_deref().and_then(stored_targets);
        let at_start = match remembered {
            Some(_) => OnceLock::from(applied.clone()),
            None => OnceLock::new(),
        };
        Self {
            known: Mutex::new(Known {
                applied,
                given: HashMap::new(),
            }),
            telling: sync::Mutex::default(),
            at_start,
            lease,
            progressed: Notify::new(),
        }
    }

    /// The first targets of this lease term.
    pub(super) fn begins_with(&self, targets: &Targets) {
        self.at_start
            .get_or_init(|| Some(targets.revision().clone()));
    }

    /// Whether every load balancer has these targets.
    pub(super) fn is(&self, revision: &Revision) -> bool {
        self.known.lock().applied.as_ref() == Some(revision)
    }

    /// The targets that every load balancer has; and those that are presumed of one that this controller has
    /// never made, while it waits in the background lane.
    pub(super) fn known_and_presumed(&self) -> (Option<Revision>, Option<Revision>) {
        let applied = self.known.lock().applied.clone();
        let presumed = applied.clone();
        let presumed = presumed.or_else(|| self.at_start.get().cloned().flatten());
        (applied, presumed)
    }

    /// To be awaited before a call that gives targets, and kept until its answer is written. None:
    /// not now, this process leads no more.
    pub(super) async fn begin(&self, revision: &Revision) -> Option<UpdateInFlight<'_>> {
        let (giving, is_applied) = self.give(revision);
        if is_applied {
            return Some(giving);
        }
        // Each call waits until the Lease has forgotten, not the first one alone.
        let _telling = self.telling.lock().await;
        if self.is(revision) {
            return Some(giving);
        }
        if let Some(lease) = &self.lease {
            let forgotten = Some(FORGOTTEN.to_owned());
            lease.annotate(TARGETS_ANNOTATION, forgotten).await.ok()?;
        }
        self.known.lock().applied = None;
        Some(giving)
    }

    /// Also whether all have that revision already; both at one moment, so that what is remembered is not
    /// another one in between.
    fn give(&self, revision: &Revision) -> (UpdateInFlight<'_>, bool) {
        let mut known = self.known.lock();
        *known.given.entry(revision.clone()).or_default() += 1;
        let giving = UpdateInFlight {
            applied: self,
            revision: revision.clone(),
        };
        (giving, known.applied.as_ref() == Some(revision))
    }

    /// A load balancer has other targets now, or there is one less to have them.
    pub(super) fn progressed(&self) {
        self.progressed.notify_one();
    }

    /// Until then.
    pub(super) fn progress(&self) -> Notified<'_> {
        self.progressed.notified()
    }

    /// Remembers that every load balancer has `revision`, if `all_have_it` and none is being given others;
    /// tells whether that is so.
    pub(super) async fn finish(
        &self,
        revision: &Revision,
        all_have_it: impl FnOnce() -> bool,
    ) -> bool {
        // The holder sends other targets, and there is progress when that is done.
        let Ok(_telling) = self.telling.try_lock() else {
            return false;
        };
        // The result of a call is written before it counts as sent.
        if self.gives_others(revision) || !all_have_it() || !self.all_have(revision) {
            return false;
        }
        if let Some(lease) = &self.lease {
            let text = revision.as_str().to_owned();
            // Else the next leader gives them once more.
            let _ = lease.annotate(TARGETS_ANNOTATION, Some(text)).await;
        }
        true
    }

    fn gives_others(&self, revision: &Revision) -> bool {
        self.known.lock().gives_others(revision)
    }

    /// False: a call with others has begun meanwhile.
    fn all_have(&self, revision: &Revision) -> bool {
        let mut known = self.known.lock();
        let gives_others = known.gives_others(revision);
        if !gives_others {
            known.applied = Some(revision.clone());
        }
        !gives_others
    }
}

impl Known {
    /// Whether a load balancer is being given other targets than these.
    fn gives_others(&self, revision: &Revision) -> bool {
        self.given.keys().any(|given| given != revision)
    }
}
