//! When this replica tries to lead.

use std::time::{Duration, Instant};

/// A replica that cannot do the work does not contend, and one that gave a lease up gives the others time, so that
/// the lease does not flap between two sick replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidacy {
    allowed_since: Option<Instant>,
    given_up: Option<GivenUp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GivenUp {
    /// Until then others may claim it.
    until: Instant,
    hold_off: Duration,
    /// True if another replica has held it since.
    has_rival: bool,
}

impl Candidacy {
    /// Sets whether this replica could do the work.
    pub fn allow(&mut self, now: Instant, allowed: bool) {
        match (allowed, self.allowed_since) {
            (true, None) => self.allowed_since = Some(now),
            (false, Some(_)) => {
                if self.contends_at().is_some_and(|at| at <= now) {
                    self.given_up = None;
                }
                self.allowed_since = None;
            }
            _ => {}
        }
    }

    /// After a lease was given up: the others have `chance` to claim it. If one does, this replica does not try
    /// before it has been able to do the work for `hold_off` without a break.
    pub fn give_up(&mut self, now: Instant, chance: Duration, hold_off: Duration) {
        self.given_up = Some(GivenUp {
            until: now + chance,
            hold_off,
            has_rival: false,
        });
        self.allowed_since = self.allowed_since.map(|_| now);
    }

    /// Another replica holds the lease.
    pub fn observe_rival(&mut self) {
        if let Some(given_up) = &mut self.given_up {
            given_up.has_rival = true;
        }
    }

    /// From when on it contends; none: not before it is allowed to.
    pub fn contends_at(&self) -> Option<Instant> {
        let since = self.allowed_since?;
        Some(match self.given_up {
            None => since,
            Some(given_up) if given_up.has_rival => since + given_up.hold_off,
            Some(given_up) => since.max(given_up.until),
        })
    }
}
