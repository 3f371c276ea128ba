//! The keys of a queue, for people.

use std::{fmt::Write, time::Duration};

use tokio::time::Instant;

use super::{Added, Entry, Key, Priority, State};

/// A key, with ages and delays as of one moment.
#[derive(Clone, Debug)]
pub(in crate::queue) struct KeyState<K> {
    key: K,
    in_flight: Option<Duration>,
    waiting: Option<(Duration, Priority)>,
    retry_in: Option<Duration>,
    later_in: Option<Duration>,
    failures: u32,
}

impl<K: Key> State<K> {
    /// All that is known of each key.
    pub(in crate::queue) fn key_states(&self, now: Instant) -> Vec<KeyState<K>> {
        let entries = self.entries.iter();
        entries
            .map(|(key, entry)| KeyState::of(key.clone(), entry, now))
            .collect()
    }
}

impl<K: Key> KeyState<K> {
    fn of(key: K, entry: &Entry, now: Instant) -> Self {
        let age = |since: Instant| now.saturating_duration_since(since);
        let waits = entry.ready.as_ref().map(|ready| ready.added);
        let waits = waits.or(entry.again);
        Self {
            key,
            in_flight: entry.running.as_ref().map(|running| age(running.since)),
            waiting: waits.map(|Added { priority, since }| (age(since), priority)),
            retry_in: entry.retry.map(|delayed| delayed.at - now),
            later_in: entry.later.map(|delayed| delayed.at - now),
            failures: entry.failures,
        }
    }

    /// Keys in flight first, the longest before the others; then waiting keys, then delayed ones,
    /// the next one first.
    fn order(&self) -> (u8, Duration) {
        let longest_first = |age| Duration::MAX.saturating_sub(age);
        if let Some(age) = self.in_flight {
            (0, longest_first(age))
        } else if let Some((age, _)) = self.waiting {
            (1, longest_first(age))
        } else {
            let delays = [self.retry_in, self.later_in].into_iter().flatten();
            (2, delays.min().unwrap_or_default())
        }
    }
}

/// A line for the queue `name`, and one for each of its keys.
pub(in crate::queue) fn write<K: Key>(name: &str, mut keys: Vec<KeyState<K>>) -> String {
    keys.sort_by_cached_key(|key| (key.order(), format!("{:?}", key.key)));
    let count = |of: fn(&KeyState<K>) -> bool| keys.iter().filter(|key| of(key)).count();
    let (in_flight, waiting, delayed) = (
        count(|key| key.in_flight.is_some()),
        count(|key| key.waiting.is_some()),
        count(|key| key.retry_in.is_some() || key.later_in.is_some()),
    );
    let mut lines = format!("{name}: in_flight={in_flight} waiting={waiting} delayed={delayed}\n");
    for key in &keys {
        // Writing to a string cannot fail.
        let _ = write!(lines, "  {:?}", key.key);
        for (what, time) in [
            ("in_flight", key.in_flight),
            ("waiting", key.waiting.map(|(age, _)| age)),
            ("retry_in", key.retry_in),
            ("later_in", key.later_in),
        ] {
            if let Some(time) = time {
                let _ = write!(lines, " {what}={:.3}s", time.as_secs_f64());
            }
        }
        if let Some((_, priority)) = key.waiting {
            let _ = write!(lines, " priority={priority:?}");
        }
        let _ = writeln!(lines, " failures={}", key.failures);
    }
    lines
}
