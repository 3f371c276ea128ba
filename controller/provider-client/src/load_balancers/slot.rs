//! The right to begin one call about load balancers.

use std::sync::Arc;

use crate::{
    Provider, Session,
    admission::{Permit, Urgency},
};

/// The right to begin one call that changes load balancers. The call is to be made at once: others wait for it.
#[derive(Debug)]
pub struct Slot {
    pub(crate) permit: Permit,
    pub(crate) session: Arc<Session>,
}

impl Provider {
    /// Waits until one more call that changes load balancers may begin: for a provider that serves, the end of a
    /// pause, another call's end. One in the background waits for as long as any other call does.
    pub async fn slot(&self, in_background: bool) -> Slot {
        let urgency = if in_background {
            Urgency::LoadBalancersInBackground
        } else {
            Urgency::LoadBalancers
        };
        loop {
            self.shared.session_that(|_| true).await;
            if let Ok((permit, session)) = self.shared.admit(urgency).await {
                return Slot { permit, session };
            }
        }
    }
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
