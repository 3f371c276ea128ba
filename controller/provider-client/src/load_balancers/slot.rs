//! The right to begin one call about load balancers.

use std::sync::Arc;

use crate::{Session, admission::Permit};

/// The right to begin one call that changes load balancers. The call is to be made at once: others wait for it.
#[derive(Debug)]
pub struct Slot {
    pub(crate) permit: Permit,
    pub(crate) session: Arc<Session>,
}

impl Slot {
    /// Number of such calls that the provider takes at once.
    pub fn max_in_flight(&self) -> usize {
        let offered = self.session.load_balancers.as_ref();
        offered.map_or(1, |offered| offered.max_in_flight)
    }

    /// Number of Services that one update may have; one of a provider without updates.
    pub fn services_per_update(&self) -> usize {
        let offered = self.session.load_balancers.as_ref();
        match offered {
            Some(offered) if !self.lacks_updates() => offered.max_services_per_update,
            _ => 1,
        }
    }
}
