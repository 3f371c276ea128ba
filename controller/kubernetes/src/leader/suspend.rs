//! How long the machine was suspended. `Instant` stands still meanwhile (`CLOCK_MONOTONIC`), while the lease
//! expires for all others. No clock of a virtual machine shows that its host stopped it.

use std::time::Duration;

/// Since the machine was booted, at least: for the start of a time that must not last too long.
pub(super) fn at_least() -> Duration {
    let since_boot = clock::since_boot();
    since_boot.saturating_sub(clock::awake())
}

/// Since the machine was booted, at most: for the end of such a time. The two clocks are read one after
/// the other, and this thread may be held up in between.
pub(super) fn at_most() -> Duration {
    let awake = clock::awake();
    clock::since_boot().saturating_sub(awake)
}

#[cfg(target_os = "linux")]
mod clock {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn since_boot() -> Duration {
        clock_gettime(ClockId::Boottime)
            .try_into()
            .unwrap_or_default()
    }

    pub(super) fn awake() -> Duration {
        clock_gettime(ClockId::Monotonic)
            .try_into()
            .unwrap_or_default()
    }
}

/// Elsewhere nothing is known of it.
#[cfg(not(target_os = "linux"))]
mod clock {
    use std::time::Duration;

    pub(super) fn since_boot() -> Duration {
        Duration::ZERO
    }

    pub(super) fn awake() -> Duration {
        Duration::ZERO
    }
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
