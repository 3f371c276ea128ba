//! Finalizer, record and conditions that a Service needs before the provider is called for it.

use super::{Progress, ServiceFacts};
use crate::{
    condition::Status,
    service::{
        ServiceView,
        condition::{ACCEPTED, PROVISIONED, WAITING},
        ownership::is_claimed,
        patch_plan::{PatchDraft, StatusPatch},
        settled::{ANNOTATION_SETTLED, Comparison, SettledRecord},
    },
};

impl Progress {
    /// The finalizer and the record that names the owner (S-30, not Q-5); before a changed Ensure the record
    /// is opened. The condition of a wait that is over is removed.
    pub(super) fn prepare(
        &self,
        service: &ServiceView,
        facts: &ServiceFacts<'_>,
    ) -> Option<StatusPatch> {
        let capability = facts.capability;
        let is_new = !service.has_finalizer();
        let record = match SettledRecord::own(service, capability) {
            Some(record) if record.compare(service, capability) == Comparison::Settled => {
                let without_targets = record.without_targets();
                without_targets.filter(|_| self.agrees_with_lease(service, facts))
            }
            Some(record) => record.opened(service),
            None => (!is_claimed(service, capability))
                .then(|| SettledRecord::begun(service, capability)),
        };
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        if let Some(record) = record {
            draft.annotate(ANNOTATION_SETTLED, Some(&record.to_string()));
        }
        draft.remove_condition(WAITING);
        if is_new {
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
}
