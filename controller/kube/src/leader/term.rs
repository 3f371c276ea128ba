//! The state of the election for other tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use outrigger_core::lease::Lost;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How this process stands in one election.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Another replica leads, or none.
    Standby {
        /// The holder of the lease, as last observed.
        holder: Option<Arc<str>>,
    },
    /// This process leads.
    Leading(LeaseTerm),
    /// It led and must not act any more: the process has to end with `leaderelection lost`.
    Lost {
        /// The cause.
        reason: Lost,
    },
}

impl Leadership {
    /// The lease term, if this process leads.
    pub fn leading(&self) -> Option<&LeaseTerm> {
        match self {
            Self::Leading(term) => Some(term),
            _ => None,
        }
    }
}

/// A lease term. Cheap to clone; all clones end together.
///
/// The token is cancelled when the lease term ends, which is always before another process can
/// be elected. But a process that was stopped and goes on (SIGSTOP, a frozen machine) may run a
/// loop before the task that cancels: ask [`is_valid_now`](Self::is_valid_now) right before each
/// mutating call.
#[derive(Clone, Debug)]
pub struct LeaseTerm {
    since: Instant,
    quiet_at: Instant,
    epoch: i32,
    token: CancellationToken,
    /// Nanoseconds after `since`, those included that the machine was suspended before the last renewal
    /// was sent; `u64::MAX`: without end.
    deadline: Arc<AtomicU64>,
}

impl LeaseTerm {
    /// For `--leader-elect=false`: lasts until `token` is cancelled.
    pub fn unelected(token: CancellationToken) -> Self {
        let now = Instant::now();
        Self {
            since: now,
            quiet_at: now,
            epoch: 0,
            token,
            deadline: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    pub(super) fn new(since: Instant, quiet_at: Instant, epoch: i32) -> Self {
        Self {
            since,
            quiet_at,
            epoch,
            token: CancellationToken::new(),
            deadline: Arc::default(),
        }
    }

    /// It lasts until `deadline`; `suspended`: how long the machine had been suspended when the renewal was sent.
    pub(super) fn extend(&self, deadline: Instant, suspended: Duration) {
        let until = deadline.saturating_duration_since(self.since) + suspended;
        let nanos = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX - 1);
        self.deadline.store(nanos, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.token.cancel();
    }

    /// When it began.
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// From then on no write of an earlier leader is on its way to the API server.
    pub const fn quiet_at(&self) -> Instant {
        self.quiet_at
    }

    /// The Lease's `leaseTransitions`: larger with each other leader.
    pub const fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Cancelled when the lease term ends.
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// True if this process may act right now. Reads the clocks, so it is right even when no task
    /// could run for a while, or the machine was suspended; an end that is found here ends all clones.
    pub fn is_valid_now(&self) -> bool {
        self.is_valid_at(Instant::now(), suspended_at_most())
    }

    fn is_valid_at(&self, now: Instant, suspended: Duration) -> bool {
        let valid = !self.token.is_cancelled() && self.overdue(now, suspended).is_none();
        if !valid {
            self.token.cancel();
        }
        valid
    }

    /// How long ago it ended by its deadline.
    pub(super) fn overdue_now(&self) -> Option<Duration> {
        self.overdue(Instant::now(), suspended_at_most())
    }

    fn overdue(&self, now: Instant, suspended: Duration) -> Option<Duration> {
        let deadline = match self.deadline.load(Ordering::Acquire) {
            u64::MAX => return None,
            nanos => Duration::from_nanos(nanos),
        };
        (now - self.since + suspended).checked_sub(deadline)
    }
}

/// How long the machine was suspended since it was booted, at least: for the start of a time that must not last too long.
/// `Instant` stands still meanwhile (`CLOCK_MONOTONIC`), while the lease expires for all others. No clock of a virtual
/// machine shows that its host stopped it.
pub(super) fn suspended_at_least() -> Duration {
    let since_boot = clock(ClockId::Boottime);
    since_boot.saturating_sub(clock(ClockId::Monotonic))
}

/// The same at most: for the end of such a time. The two clocks are read one after the other, and this thread may be
/// held up in between.
pub(super) fn suspended_at_most() -> Duration {
    let awake = clock(ClockId::Monotonic);
    clock(ClockId::Boottime).saturating_sub(awake)
}

fn clock(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The lease expires for the others while this machine sleeps and its clock stands still.
    #[test]
    fn a_lease_does_not_outlast_a_suspended_machine() {
        let since = Instant::now();
        let slept = SECOND * 100;
        let term = LeaseTerm::new(since, since, 0);
        term.extend(since + SECOND * 10, slept);
        assert!(term.is_valid_at(since + SECOND * 9, slept));
        assert!(term.is_valid_at(since + SECOND, slept + SECOND * 8));
        // A renewal that was sent after that sleep counts from then.
        term.extend(since + SECOND * 11, slept + SECOND * 8);
        assert!(term.is_valid_at(since + SECOND * 10, slept + SECOND * 8));
        assert!(!term.is_valid_at(since + SECOND * 2, slept + SECOND * 17));
        assert!(term.token().is_cancelled(), "for all clones");
    }

    #[test]
    fn the_two_bounds_of_a_suspension_are_in_order() {
        let before = suspended_at_least();
        assert!(before <= suspended_at_most());
        assert!(suspended_at_least() <= suspended_at_most());
    }
}
