//! When a handshake is repeated on a connection that has one.

use std::time::Duration;

use tokio::time::Instant;

/// Before a handshake that the provider asks for right after another one, from the second in a row on.
const HANDSHAKE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Handshakes that are further apart are not in a row.
const IN_A_ROW: Duration = Duration::from_mins(3);

/// Handshakes that the provider asks for by what it answers, on a connection that has one.
#[derive(Default)]
pub(super) struct Again {
    pub(super) in_a_row: u32,
    last: Option<Instant>,
}

impl Again {
    /// How long to wait before the next one: not at all before the first in a row.
    pub(super) fn wait(&mut self, now: Instant) -> Option<Duration> {
        let is_first = self.last.is_none_or(|last| now - last > IN_A_ROW);
        self.in_a_row = if is_first { 0 } else { self.in_a_row + 1 };
        let (first, longest) = HANDSHAKE_AGAIN;
        let doublings = self.in_a_row.checked_sub(1);
        let wait = doublings.map(|n| first.saturating_mul(1 << n.min(16)).min(longest));
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }
}
