//! How many Services one update of targets has: as many as are done while a change of one of them may wait, at
//! the pace of the last results.

use std::time::Duration;

/// How long an update should take. A change of a Service in it waits for the Service's own result, and of a
/// provider that takes one call at a time every other change waits for the end.
const TIME: Duration = Duration::from_secs(10);

/// Services of an update as long as the pace is not known, for each call that the provider takes together with others: of few
/// calls a long one holds up the others.
const FIRST: usize = 8;

/// Services without a result are asked about again in updates of this part of their number.
const PARTS: usize = 8;

/// The number of Services of the next update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSize {
    /// Between two results.
    pace: Option<Duration>,
    most: usize,
}

/// The results of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateResults {
    /// Services in the update.
    pub requested: usize,
    /// How many of them have a result.
    pub answered: usize,
    /// From the call to the first result.
    pub first: Duration,
    /// From the call to the last result.
    pub last: Duration,
}

impl Default for UpdateSize {
    fn default() -> Self {
        Self {
            pace: None,
            most: usize::MAX,
        }
    }
}

impl UpdateSize {
    /// At least one. The provider takes `max_in_flight` calls together.
    pub fn services(&self, max_in_flight: usize) -> usize {
        let in_time = match self.pace.map(|pace| pace.as_nanos()) {
            None => FIRST.saturating_mul(max_in_flight),
            Some(0) => usize::MAX,
            Some(pace) => usize::try_from(TIME.as_nanos() / pace).unwrap_or(usize::MAX),
        };
        in_time.min(self.most).max(1)
    }

    /// An update has ended.
    pub fn ended(&mut self, results: UpdateResults) {
        let UpdateResults {
            requested,
            answered,
            first,
            last,
        } = results;
        // From the first result on: the time before it may be the same for any number.
        match u32::try_from(answered).unwrap_or(u32::MAX) {
            0 => {}
            1 => self.pace = self.pace.map(|pace| pace.min(last)),
            more => self.pace = Some(last.saturating_sub(first) / (more - 1)),
        }
        if answered >= requested {
            self.most = self.most.saturating_mul(2);
        } else if requested > 1 {
            self.most = ((requested - answered) / PARTS).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(requested: usize, answered: usize, first: u64, last: u64) -> UpdateResults {
        UpdateResults {
            requested,
            answered,
            first: Duration::from_secs(first),
            last: Duration::from_secs(last),
        }
    }

    fn sizes(ended: &[UpdateResults]) -> Vec<usize> {
        let mut size = UpdateSize::default();
        let mut sizes = vec![size.services(1)];
        for results in ended {
            size.ended(*results);
            sizes.push(size.services(1));
        }
        sizes
    }

    #[test]
    fn an_update_takes_ten_seconds_at_the_pace_of_the_last_one() {
        // The Services are updated one after the other, in 4 s each, then in half a second.
        let one_by_one = [results(8, 8, 4, 32), results(2, 2, 4, 8)];
        assert_eq!(sizes(&one_by_one), [8, 2, 2]);
        assert_eq!(sizes(&[results(8, 8, 0, 0)]), [8, usize::MAX]);
        // All results at once, after a long call: more Services would take no longer.
        assert_eq!(sizes(&[results(8, 8, 30, 30)]), [8, usize::MAX]);
    }

    #[test]
    fn a_first_update_is_larger_where_others_go_beside_it() {
        let size = UpdateSize::default();
        assert_eq!([1, 2, 16].map(|most| size.services(most)), [8, 16, 128]);
    }

    #[test]
    fn one_result_alone_can_only_show_a_faster_pace() {
        assert_eq!(sizes(&[results(1, 1, 30, 30)]), [8, 8]);
        let slow = results(8, 8, 30, 240);
        assert_eq!(sizes(&[slow, results(1, 1, 60, 60)]), [8, 1, 1]);
        assert_eq!(sizes(&[slow, results(1, 1, 2, 2)]), [8, 1, 5]);
    }

    #[test]
    fn services_without_result_are_asked_about_in_parts_down_to_one() {
        let fast = results(200, 200, 0, 0);
        let silent = [
            fast,
            results(200, 40, 0, 0),
            results(20, 4, 0, 0),
            results(2, 1, 0, 0),
            // An update of a single Service says nothing about others.
            results(1, 0, 0, 0),
        ];
        assert_eq!(sizes(&silent), [8, usize::MAX, 20, 2, 1, 1]);
        // Nor does one that comes late, when the pace of all is known.
        assert_eq!(sizes(&[silent[1], results(1, 0, 0, 0)]), [8, 20, 20]);
        let healed = [silent[1], fast, fast];
        assert_eq!(sizes(&healed), [8, 20, 40, 80]);
    }
}
