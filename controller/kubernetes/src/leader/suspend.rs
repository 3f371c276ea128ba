//! How long the machine was suspended. `Instant` stands still meanwhile (`CLOCK_MONOTONIC`), while the lease
//! expires for all others. No clock of a virtual machine shows that its host stopped it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Since the machine was booted, at least: for the start of a time that must not last too long.
pub(super) fn at_least() -> Duration {
    let since_boot = clock(ClockId::Boottime);
    since_boot.saturating_sub(clock(ClockId::Monotonic))
}

/// Since the machine was booted, at most: for the end of such a time. The two clocks are read one after
/// the other, and this thread may be held up in between.
pub(super) fn at_most() -> Duration {
    let awake = clock(ClockId::Monotonic);
    clock(ClockId::Boottime).saturating_sub(awake)
}

fn clock(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{at_least, at_most};

    #[test]
    fn the_two_bounds_are_in_order() {
        let before = at_least();
        assert!(before <= at_most());
        assert!(at_least() <= at_most());
    }
}
