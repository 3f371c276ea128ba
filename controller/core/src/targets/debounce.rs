//! When changes of the targets go out: many together, none late, and the last target not at once.
//!
//! The rollout reports each change ([`Debounce::changed`]), sleeps until [`Debounce::due`] and asks [`Debounce::expire`]. A
//! node that serves no more goes out at once; nodes that come are gathered.
//!
//! ```
//! use outrigger_core::targets::{Debounce, Pace, TargetChange};
//! use std::time::Duration;
//!
//! let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let mut debounce = Debounce::new(Pace::default());
//! debounce.changed(now, TargetChange::Added);
//! assert_eq!(debounce.due(), Some(now + Duration::from_secs(1)));
//! debounce.changed(now, TargetChange::Removed);
//! assert!(debounce.expire(now));
//! assert_eq!(debounce.due(), None);
//! # Ok::<(), jiff::Error>(())
//! ```

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{TargetChange, Targets, is_target, is_too_large};
use crate::{api_time::after, node::NodeView};

/// How long the last targets are kept where none would be left though Nodes exist: more likely a mistake, such as a label
/// on all Nodes, than meant.
const HOLD: Duration = Duration::from_secs(30);

/// How long changes are gathered. The defaults are those of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// They go out when for this long there was none.
    pub idle: Duration,
    /// No change waits longer than this, however many follow it.
    pub ceiling: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(1),
            ceiling: Duration::from_secs(10),
        }
    }
}

/// A removed node goes out at once. The next ones go out this long after it, and while more follow, after twice as long
/// each time, up to [`Pace::idle`]; earlier when for half of this long there was none.
const REMOVAL: Duration = Duration::from_millis(100);

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
        let quiet = after(latest, REMOVAL / 2);
        Some(match self.last {
            Some((last, longest)) if first < after(last, pace.idle) => {
                gathered.min(quiet.max(after(last, REMOVAL)).min(after(last, longest)))
            }
            _ => first,
        })
    }

    /// Returns true if it is time: the targets as they are now go out, and nothing waits any more.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let is_time = self.due().is_some_and(|due| due <= now);
        if is_time {
            self.waiting = None;
            let idle = self.pace.idle;
            let longest = match self.last {
                Some((last, longest)) if now <= after(last, idle) => (longest * 2).min(idle),
                _ => REMOVAL,
            };
            self.last = Some((now, longest.max(REMOVAL)));
        }
        is_time
    }
}

/// Since when there is no target.
#[derive(Clone, Debug, Default)]
pub struct EmptyTargets(Option<Timestamp>);

impl EmptyTargets {
    /// The targets among all `nodes`; or where there is none, for a while those of `last` that still exist, and until when.
    pub fn targets(
        &mut self,
        now: Timestamp,
        nodes: Vec<Arc<NodeView>>,
        last: &Targets,
    ) -> (Vec<Arc<NodeView>>, Option<Timestamp>) {
        let targets = nodes.iter().filter(|node| is_target(node));
        let targets: Vec<_> = targets.cloned().collect();
        if !targets.is_empty() {
            self.0 = None;
            return (targets, None);
        }
        let until = after(*self.0.get_or_insert(now), HOLD);
        let is_kept = |node: &Arc<NodeView>| {
            node.deleted.is_none() && !is_too_large(node) && last.get(&node.name).is_some()
        };
        let kept: Vec<_> = nodes.into_iter().filter(is_kept).collect();
        if kept.is_empty() || until <= now {
            return (targets, None);
        }
        (kept, Some(until))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::{
        fixture::{map, registered},
        targets::LABEL_EXCLUDE,
    };

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

    fn second(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    /// Nodes by name; `!` are excluded, `-` are being deleted.
    fn nodes(names: &str) -> Vec<Arc<NodeView>> {
        let node = |word: &str| {
            let mut node = registered(word.trim_start_matches(['!', '-']));
            if word.starts_with('!') {
                node.labels = map(&[(LABEL_EXCLUDE, "true")]);
            }
            node.deleted = word.starts_with('-').then(|| second(0));
            Arc::new(node)
        };
        names.split_whitespace().map(node).collect()
    }

    #[test]
    fn targets_that_become_empty_while_nodes_exist_wait() {
        let mut empty = EmptyTargets::default();
        let mut last = Targets::among([]);
        for (secs, now, expected, until) in [
            // At the start there is nothing to keep.
            (0, "!a !b", "", None),
            (1, "a b c", "a b c", None),
            // Any number goes, as long as one stays.
            (2, "!a !b c", "c", None),
            (3, "a b c", "a b c", None),
            (10, "!a !b !c !d", "a b c", Some(40)),
            // Departed Nodes leave at once, and a Node that is no target ends it.
            (20, "!a -b !d", "a", Some(40)),
            (25, "!a e", "e", None),
            (26, "!a !e", "e", Some(56)),
            (56, "!a !e", "", None),
            (57, "!a !e", "", None),
            (58, "a e", "a e", None),
            (59, "", "", None),
        ] {
            let (targets, held) = empty.targets(second(secs), nodes(now), &last);
            let names: Vec<_> = targets.iter().map(|node| &*node.name).collect();
            assert_eq!(names.join(" "), expected, "{secs}");
            assert_eq!(held, until.map(second), "{secs}");
            last = Targets::of(targets, &[]);
        }
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
