//! The right to begin one call about load balancers.

use std::sync::Arc;

use crate::{Session, admission::Permit};

/// The right to begin one call that changes load balancers. The call is to be made at once: others wait for it. Dropped
/// without a call, it does not count for the rates that the provider declares.
#[derive(Debug)]
pub struct Slot {
    pub(crate) permit: Permit,
    pub(crate) session: Arc<Session>,
    is_used: bool,
}

impl Slot {
    pub(crate) const fn new(permit: Permit, session: Arc<Session>) -> Self {
        Self {
            permit,
            session,
            is_used: false,
        }
    }

    /// A call begins.
    pub(super) const fn used(mut self) -> Self {
        self.is_used = true;
        self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_used {
            self.permit.unused();
        }
    }
}
