//! Holds back a set that has lost most of its targets in one step: more likely a mistake (a label
//! on all nodes, a list that was cut) than the truth, and an outage if it is believed.

use std::time::Duration;

use jiff::Timestamp;

use super::Targets;
use crate::brake::after;

/// How many targets may go in one step. The defaults are those of the flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// So many may always go.
    pub few: usize,
    /// Part of the targets, 0 to 1, that may go at once.
    pub fraction: f64,
    /// How long a step that takes more is held before it is believed.
    pub hold: Duration,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            few: 3,
            fraction: 0.5,
            hold: Duration::from_secs(30),
        }
    }
}

/// What to do with a set of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It goes out.
    Go,
    /// It waits: asked again then, or when the targets change.
    Hold {
        /// When it is believed.
        until: Timestamp,
        /// How many targets of the last set are gone.
        gone: usize,
    },
}

/// Compares each set with the last one that went out. Knows none at the start, when nothing is held:
/// there is nothing to compare with.
#[derive(Clone, Debug)]
pub struct ShrinkGuard {
    allowance: Allowance,
    last: Option<Targets>,
    held_since: Option<Timestamp>,
}

impl ShrinkGuard {
    /// Knows no set yet.
    pub const fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            last: None,
            held_since: None,
        }
    }

    /// Whether `targets` go out now. The time counts from the first set in a row that has lost too
    /// many; one that has not ends it and goes out.
    pub fn propose(&mut self, now: Timestamp, targets: &Targets) -> Step {
        if let Some(gone) = self.too_many(targets) {
            let since = *self.held_since.get_or_insert(now);
            let until = after(since, self.allowance.hold);
            if now < until {
                return Step::Hold { until, gone };
            }
        }
        self.held_since = None;
        self.last = Some(targets.clone());
        Step::Go
    }

    /// The set that went out last: what load balancers are made with meanwhile.
    pub const fn last(&self) -> Option<&Targets> {
        self.last.as_ref()
    }

    fn too_many(&self, targets: &Targets) -> Option<usize> {
        let last = self.last.as_ref()?;
        let gone = last.gone_in(targets);
        let part = self.allowance.fraction * last.nodes().len() as f64;
        (gone > self.allowance.few && gone as f64 > part).then_some(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use jiff::Timestamp;
    use proptest::{collection::vec, prelude::*};

    use super::{Allowance, ShrinkGuard, Step, Targets};
    use crate::fixture::registered;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    fn targets(numbers: impl IntoIterator<Item = usize>) -> Targets {
        let nodes = numbers.into_iter();
        Targets::among(nodes.map(|n| Arc::new(registered(&format!("n{n}")))))
    }

    fn guard(last: usize) -> ShrinkGuard {
        let mut guard = ShrinkGuard::new(Allowance::default());
        assert_eq!(guard.propose(at(0), &targets(0..last)), Step::Go);
        guard
    }

    #[test]
    fn more_than_half_and_more_than_three_are_held() {
        for (before, after, held) in [
            (0, 0, false),
            (3, 0, false),
            (4, 0, true),
            (4, 1, false),
            (8, 4, false),
            (8, 3, true),
            (100, 50, false),
            (100, 49, true),
        ] {
            let step = guard(before).propose(at(1), &targets(0..after));
            let expected = Step::Hold {
                until: at(31),
                gone: before - after,
            };
            assert_eq!(
                step,
                if held { expected } else { Step::Go },
                "{before} to {after}"
            );
        }
    }

    /// As many as before, but others.
    #[test]
    fn who_is_gone_counts_and_not_how_many_there_are() {
        let step = guard(8).propose(at(1), &targets(3..11));
        assert_eq!(step, Step::Go);
        let step = guard(8).propose(at(1), &targets(5..13));
        assert_eq!(
            step,
            Step::Hold {
                until: at(31),
                gone: 5
            }
        );
    }

    #[test]
    fn a_loss_that_lasts_is_believed() {
        let mut guard = guard(10);
        let lost = Step::Hold {
            until: at(31),
            gone: 8,
        };
        assert_eq!(guard.propose(at(1), &targets(0..2)), lost);
        assert_eq!(guard.last(), Some(&targets(0..10)));
        // It goes on falling, and its time with it.
        let worse = Step::Hold {
            until: at(31),
            gone: 9,
        };
        assert_eq!(guard.propose(at(20), &targets(0..1)), worse);
        assert_eq!(guard.propose(at(31), &targets(0..1)), Step::Go);
        assert_eq!(guard.last(), Some(&targets(0..1)));
    }

    #[test]
    fn who_comes_back_ends_it() {
        let mut guard = guard(10);
        assert_ne!(guard.propose(at(1), &targets(0..2)), Step::Go);
        assert_eq!(guard.propose(at(5), &targets(0..9)), Step::Go);
        let anew = Step::Hold {
            until: at(36),
            gone: 7,
        };
        assert_eq!(guard.propose(at(6), &targets(0..2)), anew);
    }

    proptest! {
        /// Whatever is proposed, it goes out within the hold of being proposed steadily.
        #[test]
        fn nothing_is_held_for_longer_than_the_hold(
            steps in vec((0..20_i64, 0..12_usize), 1..40),
        ) {
            let allowance = Allowance::default();
            let mut guard = ShrinkGuard::new(allowance);
            let mut now = at(0);
            let mut went = now;
            for (gap, count) in steps {
                now += Duration::from_secs(gap as u64);
                let wanted = targets(0..count);
                match guard.propose(now, &wanted) {
                    Step::Go => {
                        prop_assert_eq!(guard.last(), Some(&wanted));
                        went = now;
                    }
                    Step::Hold { until, gone } => {
                        prop_assert!(gone > allowance.few);
                        prop_assert!(now < until && until <= now + allowance.hold);
                        prop_assert!(went <= now);
                        let mut later = guard.clone();
                        prop_assert_eq!(later.propose(until, &wanted), Step::Go);
                    }
                }
            }
        }
    }
}
