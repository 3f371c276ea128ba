//! The provider's declarations, with what the Lease says of this program's records.

use std::sync::Arc;

use outrigger_core::service::capability::Capability;
use parking_lot::Mutex;

/// Makes them once for each handshake: every decision asks for them.
#[derive(Default)]
pub(super) struct Declarations {
    unbroken_since: i32,
    /// As in the handshake, and as of this term.
    latest: Mutex<Option<(Arc<Capability>, Arc<Capability>)>>,
}

impl Declarations {
    pub(super) fn new(unbroken_since: i32) -> Self {
        Self {
            unbroken_since,
            latest: Mutex::default(),
        }
    }

    /// The same, from which load balancers are compared in this term.
    pub(super) fn in_term(&self, declared: Arc<Capability>) -> Arc<Capability> {
        if self.unbroken_since == declared.unbroken_since {
            return declared;
        }
        let mut latest = self.latest.lock();
        if let Some((from, of_term)) = &*latest
            && Arc::ptr_eq(from, &declared)
        {
            return Arc::clone(of_term);
        }
        let of_term = Arc::new(Capability {
            unbroken_since: self.unbroken_since,
            ..(*declared).clone()
        });
        *latest = Some((declared, Arc::clone(&of_term)));
        of_term
    }
}
