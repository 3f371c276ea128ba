//! A log line for many failures of the same cause.
//!
//! A loop passes the cause, without the object, to [`Repeats::due`], mostly by [`log_repeated!`](crate::log_repeated).

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often a cause that goes on is logged.
const REMIND: Duration = Duration::from_mins(1);

/// Causes that are remembered. A cause may hold another side's text, so that there is no other limit.
const CAUSES: usize = 256;

/// Decides which failures are worth a line: the first of a cause immediately, and from then on one a
/// minute, with the number of those in between. One failure concerns every object alike, such as a
/// right that is missing, and 5,000 nodes would otherwise log it 5,000 times.
#[derive(Debug, Default)]
pub struct Repeats {
    causes: Mutex<HashMap<Box<str>, Cause>>,
}

#[derive(Debug)]
struct Cause {
    logged: Instant,
    suppressed: u64,
}

impl Repeats {
    /// A failure of `cause` happened. Returns how many of the same cause were not logged since the last
    /// line, if it is time for a line; else it is counted.
    pub fn due(&self, cause: &str) -> Option<u64> {
        let now = Instant::now();
        let mut causes = self.causes.lock();
        if let Some(entry) = causes.get_mut(cause) {
            if now.saturating_duration_since(entry.logged) < REMIND {
                entry.suppressed += 1;
                return None;
            }
            entry.logged = now;
            return Some(std::mem::take(&mut entry.suppressed));
        }
        if causes.len() >= CAUSES {
            causes.retain(|_, entry| now.saturating_duration_since(entry.logged) < REMIND);
        }
        // With more causes than that, some are logged more often.
        if causes.len() < CAUSES {
            let first = Cause {
                logged: now,
                suppressed: 0,
            };
            causes.insert(cause.into(), first);
        }
        Some(0)
    }
}

/// Logs at `level` with the number of `others` if a line about `cause` is due by
/// [`Repeats::due`](crate::telemetry::Repeats::due), and at the level debug in between. The fields and the message
/// are those of [`tracing::warn!`].
#[macro_export]
macro_rules! log_repeated {
    ($level:ident, $repeats:expr, $cause:expr, $($line:tt)+) => {
        match $repeats.due($cause) {
            Some(others) => ::tracing::$level!(others, $($line)+),
            None => ::tracing::debug!($($line)+),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cause_is_logged_once_and_then_once_a_minute_with_its_count() {
        let repeats = Repeats::default();
        assert_eq!(repeats.due("a"), Some(0));
        for _ in 0..199 {
            assert_eq!(repeats.due("a"), None);
        }
        assert_eq!(repeats.due("b"), Some(0), "another cause");
        tokio::time::advance(REMIND).await;
        assert_eq!(repeats.due("a"), Some(199));
        assert_eq!(repeats.due("a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let repeats = Repeats::default();
        for number in 0..1_000 {
            assert_eq!(repeats.due(&number.to_string()), Some(0));
        }
        assert!(repeats.causes.lock().len() <= CAUSES);
        tokio::time::advance(REMIND).await;
        assert_eq!(repeats.due("new"), Some(0));
        assert_eq!(repeats.causes.lock().len(), 1);
    }
}
