//! The provider's own name of each load balancer: a hint in later calls about its Service.

use std::collections::HashMap;

use outrigger_api::v1::LoadBalancerIdentity;
use outrigger_core::service::{
    ServiceView,
    answer::{Disposition, LoadBalancerCall},
};
use parking_lot::Mutex;

/// Longer ids and names are not kept, in bytes.
const LONGEST: usize = 1024;

/// The identities in the last answers of a lease term that had one, by the UID of the Service.
#[derive(Debug, Default)]
pub(crate) struct LoadBalancerIdentities(Mutex<HashMap<Box<str>, LoadBalancerIdentity>>);

impl LoadBalancerIdentities {
    /// The hint in a call about a Service.
    pub(super) fn of(&self, service: &ServiceView) -> Option<LoadBalancerIdentity> {
        self.0.lock().get(&service.uid).cloned()
    }

    /// The provider has answered `call`. An absence in a list that lags behind takes nothing away; after a deletion
    /// there is nothing to look for.
    pub(super) fn answered(
        &self,
        call: LoadBalancerCall,
        disposition: Disposition,
        service: &ServiceView,
        identity: Option<LoadBalancerIdentity>,
    ) {
        let is_gone = matches!(disposition, Disposition::Absent | Disposition::Retained);
        if call == LoadBalancerCall::Delete && is_gone {
            return self.forget(&service.uid);
        }
        let is_hint = |one: &LoadBalancerIdentity| {
            *one != LoadBalancerIdentity::default()
                && one.id.len() <= LONGEST
                && one.name.len() <= LONGEST
        };
        if let Some(identity) = identity.filter(is_hint) {
            self.0.lock().insert(service.uid.clone(), identity);
        }
    }

    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
