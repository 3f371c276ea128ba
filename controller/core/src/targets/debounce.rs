//! When changes of the targets go out: many together, but none late.

use std::time::Duration;

use jiff::Timestamp;

use super::TargetChange;
use crate::api_time::after;

/// How long changes are gathered. The defaults are those of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// They go out when for this long there was none.
    pub idle: Duration,
    /// No change waits longer than this, however many follow it.
    pub ceiling: Duration,
    /// A removed node goes out at once. The next ones go out this long after it, and while more follow, after twice as long
    /// each time, up to `idle`; earlier when for half of this long there was none.
    pub removal: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(1),
            ceiling: Duration::from_secs(10),
            removal: Duration::from_millis(100),
        }
    }
}

/// Gathers changes. It holds no targets: the rollout reads those of the moment of its start, so
/// that the last state is never lost.
#[derive(Clone, Debug)]
pub struct Debounce {
    pace: Pace,
    waiting: Option<Waiting>,
    /// When changes went out last, and the longest wait of a removed node after it.
    last: Option<(Timestamp, Duration)>,
}

/// Changes that wait.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    first: Timestamp,
    last: Timestamp,
    /// The first and the last removed node.
    removals: Option<(Timestamp, Timestamp)>,
}

impl Debounce {
    /// Nothing waits.
    pub const fn new(pace: Pace) -> Self {
        Self {
            pace,
            waiting: None,
            last: None,
        }
    }

    /// There was a change.
    pub fn changed(&mut self, now: Timestamp, change: TargetChange) {
        if change == TargetChange::None {
            return;
        }
        let waiting = self.waiting.get_or_insert(Waiting {
            first: now,
            last: now,
            removals: None,
        });
        waiting.last = now;
        if change == TargetChange::Removed {
            let (first, _) = waiting.removals.unwrap_or((now, now));
            waiting.removals = Some((first, now));
        }
    }

    /// When to ask [`Self::expire`], unless there is a change before.
    pub fn due(&self) -> Option<Timestamp> {
        let (pace, waiting) = (self.pace, self.waiting?);
        let gathered = after(waiting.last, pace.idle).min(after(waiting.first, pace.ceiling));
        let Some((first, latest)) = waiting.removals else {
            return Some(gathered);
        };
        let quiet = after(latest, pace.removal / 2);
        Some(match self.last {
            Some((last, longest)) if first < after(last, pace.idle) => gathered.min(
                quiet
                    .max(after(last, pace.removal))
                    .min(after(last, longest)),
            ),
            _ => first,
        })
    }

    /// Returns true if it is time: the targets as they are now go out, and nothing waits any more.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let is_time = self.due().is_some_and(|due| due <= now);
        if is_time {
            self.waiting = None;
            let Pace { idle, removal, .. } = self.pace;
            let longest = match self.last {
                Some((last, longest)) if now <= after(last, idle) => (longest * 2).min(idle),
                _ => removal,
            };
            self.last = Some((now, longest.max(removal)));
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::{Debounce, Pace, TargetChange};

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millis as i64).unwrap()
    }

    fn debounce(changes: &[(u64, TargetChange)]) -> Debounce {
        let mut debounce = Debounce::new(Pace::default());
        for (millis, change) in changes {
            debounce.changed(at(*millis), *change);
        }
        debounce
    }

    #[test]
    fn when_changes_go_out() {
        use TargetChange::{Added, None as Nothing, Removed};
        let busy: Vec<_> = (0..20).map(|n| (n * 900, Added)).collect();
        for (changes, expected) in [
            (vec![], None),
            (vec![(0, Nothing)], None),
            (vec![(0, Added)], Some(1_000)),
            (vec![(0, Added), (900, Added)], Some(1_900)),
            (vec![(0, Added), (900, Nothing)], Some(1_000)),
            // The ceiling counts from the first.
            (busy, Some(10_000)),
            (vec![(0, Removed)], Some(0)),
            (vec![(0, Added), (500, Removed)], Some(500)),
            // Nodes that are added after one was removed do not delay it.
            (vec![(0, Removed), (90, Added), (95, Removed)], Some(0)),
        ] {
            assert_eq!(debounce(&changes).due(), expected.map(at), "{changes:?}");
        }
    }

    #[test]
    fn taken_changes_wait_no_more() {
        let mut debounce = debounce(&[(0, TargetChange::Added)]);
        assert!(!debounce.expire(at(999)));
        assert!(debounce.expire(at(1_000)) && !debounce.expire(at(1_000)));
        assert_eq!(debounce.due(), None);
        debounce.changed(at(5_000), TargetChange::Added);
        assert_eq!(debounce.due(), Some(at(6_000)));
    }

    /// A cluster that shrinks for minutes costs each load balancer one call a second.
    #[test]
    fn removals_that_follow_each_other_go_out_together() {
        let mut debounce = Debounce::new(Pace::default());
        let mut out = Vec::new();
        for millis in (0..4_000).step_by(10) {
            if millis <= 3_000 {
                debounce.changed(at(millis), TargetChange::Removed);
            }
            if debounce.expire(at(millis)) {
                out.push(millis);
            }
        }
        // The last ones do not wait for a whole second.
        assert_eq!(out, [0, 100, 300, 700, 1_500, 2_500, 3_050]);
        // A node that leaves after a pause goes out at once.
        debounce.changed(at(6_000), TargetChange::Removed);
        assert_eq!(debounce.due(), Some(at(6_000)));
    }

    proptest! {
        /// Runs it as the loop does: asked whenever something changes, and when it is due.
        #[test]
        fn no_change_is_late_and_none_is_lost(
            steps in vec((0..4_000_u64, select(vec![TargetChange::Added, TargetChange::Removed])), 1..60),
        ) {
            let pace = Pace::default();
            let mut debounce = Debounce::new(pace);
            let mut waiting: Vec<(Timestamp, Duration)> = Vec::new();
            let mut calls = 0;
            let mut now = at(0);
            let fire = |debounce: &mut Debounce, waiting: &mut Vec<_>, until: Option<Timestamp>| {
                let Some(due) = debounce.due().filter(|due| until.is_none_or(|u| *due <= u)) else {
                    return 0;
                };
                assert!(debounce.expire(due));
                for (since, limit) in waiting.drain(..) {
                    let waited = due.duration_since(since).unsigned_abs();
                    assert!(waited <= limit, "{waited:?} of {limit:?}");
                }
                1
            };
            for (gap, change) in &steps {
                let next = now + Duration::from_millis(*gap);
                calls += fire(&mut debounce, &mut waiting, Some(next));
                now = next;
                debounce.changed(now, *change);
                let limit = match change {
                    TargetChange::Removed => pace.idle,
                    _ => pace.ceiling,
                };
                waiting.push((now, limit));
            }
            calls += fire(&mut debounce, &mut waiting, None);
            prop_assert!(waiting.is_empty() && debounce.due().is_none());
            prop_assert!(calls <= steps.len());
        }
    }
}
