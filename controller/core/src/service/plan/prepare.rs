//! Finalizer, record and conditions that a Service needs before the provider is called for it.

use jiff::Timestamp;

use super::{Facts, Progress};
use crate::service::{
    ServiceView,
    capability::Capability,
    condition::{ACCEPTED, PROVISIONED, Status, WAITING},
    patch_plan::{Draft, StatusPatch},
    settled::{ANNOTATION_SETTLED, Record, Standing},
};

/// Whether `service` has the finalizer and, where that does not say enough, the record that are written
/// before the provider is called for it the first time.
pub fn says_whose(service: &ServiceView, capability: &Capability) -> bool {
    let has_class = service.spec.load_balancer_class.is_some();
    // Should the Service change its type before it is settled, or the provider declare its class no
    // longer, a finalizer alone does not say whose it is.
    let is_enough = !has_class && capability.serves(None);
    service.has_finalizer() && (is_enough || Record::own(service, capability).is_some())
}

impl Progress {
    /// The finalizer and whose the Service is (S-30, not Q-5), and, where something else will be asked
    /// for than what the load balancer was made from, that this is not to be trusted any more. A wait
    /// that is over goes.
    pub(super) fn prepare(
        &self,
        now: Timestamp,
        service: &ServiceView,
        facts: &Facts<'_>,
    ) -> Option<StatusPatch> {
        let capability = facts.capability;
        let is_new = !service.has_finalizer();
        let record = match Record::own(service, capability) {
            Some(record) if record.compare(service, capability) == Standing::Settled => {
                let rejoined = record.rejoined();
                rejoined.filter(|_| self.agrees_with_lease(service, facts))
            }
            Some(record) => record.opened(service),
            None => (!says_whose(service, capability)).then(|| Record::begun(service, capability)),
        };
        let mut draft = Draft::over(service, now);
        if let Some(record) = record {
            draft.annotate(ANNOTATION_SETTLED, Some(&record.to_string()));
        }
        draft.remove_condition(WAITING);
        if is_new {
            draft.add_finalizer();
            // An earlier condition may still hold.
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
