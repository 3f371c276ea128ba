//! The state of the election for other tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use outrigger_core::lease::Lost;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::suspend;

/// How this process stands in one election.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Another replica leads, or none.
    Standby {
        /// The holder of the lease, as last observed.
        holder: Option<Arc<str>>,
    },
    /// This process leads.
    Leading(Leading),
    /// It led and must not act any more: the process has to end with `leaderelection lost`.
    Lost {
        /// The cause.
        reason: Lost,
    },
}

impl Leadership {
    /// The lease term, if this process leads.
    pub fn leading(&self) -> Option<&Leading> {
        match self {
            Self::Leading(leading) => Some(leading),
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
pub struct Leading {
    since: Instant,
    quiet_at: Instant,
    epoch: i32,
    token: CancellationToken,
    /// Nanoseconds after `since`, those included that the machine was suspended before the last renewal
    /// was sent; `u64::MAX`: without end.
    deadline: Arc<AtomicU64>,
}

impl Leading {
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

    pub(super) fn until(
        since: Instant,
        quiet_at: Instant,
        deadline: Instant,
        suspended: Duration,
        epoch: i32,
    ) -> Self {
        let this = Self {
            since,
            quiet_at,
            epoch,
            token: CancellationToken::new(),
            deadline: Arc::default(),
        };
        this.extend(deadline, suspended);
        this
    }

    /// `suspended`: how long the machine had been suspended when the renewal was sent.
    pub(super) fn extend(&self, deadline: Instant, suspended: Duration) {
        let until = deadline - self.since + suspended;
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

    /// The Lease's `leaseTransitions`: larger with each new leader.
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
        self.is_valid_at(Instant::now(), suspend::at_most())
    }

    fn is_valid_at(&self, now: Instant, suspended: Duration) -> bool {
        let valid = !self.token.is_cancelled()
            && match self.deadline.load(Ordering::Acquire) {
                u64::MAX => true,
                nanos => now - self.since + suspended < Duration::from_nanos(nanos),
            };
        if !valid {
            self.token.cancel();
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Leading;

    const SECOND: Duration = Duration::from_secs(1);

    /// The lease expires for the others while this machine sleeps and its clock stands still.
    #[test]
    fn a_lease_does_not_outlast_a_suspended_machine() {
        let since = Instant::now();
        let slept = SECOND * 100;
        let leading = Leading::until(since, since, since + SECOND * 10, slept, 0);
        assert!(leading.is_valid_at(since + SECOND * 9, slept));
        assert!(leading.is_valid_at(since + SECOND, slept + SECOND * 8));
        // A renewal that was sent after that sleep counts from then.
        leading.extend(since + SECOND * 11, slept + SECOND * 8);
        assert!(leading.is_valid_at(since + SECOND * 10, slept + SECOND * 8));
        assert!(!leading.is_valid_at(since + SECOND * 2, slept + SECOND * 17));
        assert!(leading.token().is_cancelled(), "for all clones");
    }
}
