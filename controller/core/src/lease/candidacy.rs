//! Whether this replica tries to lead.

use std::time::{Duration, Instant};

/// A replica whose provider is not ready does not contend, and one that gave a lease up gives the
/// others time, so that the lease does not flap between two sick replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidacy {
    allowed_since: Option<Instant>,
    hold_off: Duration,
}

impl Candidacy {
    /// Sets whether this replica could do the work.
    pub fn allow(&mut self, now: Instant, allowed: bool) {
        match (allowed, self.allowed_since) {
            (true, None) => self.allowed_since = Some(now),
            (false, Some(_)) => {
                if self.contends_at().is_some_and(|at| at <= now) {
                    self.hold_off = Duration::ZERO;
                }
                self.allowed_since = None;
            }
            _ => {}
        }
    }

    /// After a lease was given up: no new try before this replica has been able to do the work for
    /// `hold_off` without a break.
    pub fn hold_off(&mut self, now: Instant, hold_off: Duration) {
        self.hold_off = hold_off;
        self.allowed_since = self.allowed_since.map(|_| now);
    }

    /// From when on it contends; none: not before it is allowed to.
    pub fn contends_at(&self) -> Option<Instant> {
        self.allowed_since.map(|since| since + self.hold_off)
    }
}
