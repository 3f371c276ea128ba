//! Results of the events.

use outrigger_runtime::{metric_families, telemetry::Labels};
use prometheus_client::metrics::{counter::Counter, family::Family};

metric_families! {
    /// Counters of events, each of which exists from the start.
    pub struct EventMetrics {
        pub(super) written: Family<Labels<1>, Counter> = of(["created", "repeated"]),
            "outrigger_events_written", "Writes of events that the API server accepted";
        pub(super) dropped: Family<Labels<1>, Counter> = of(["overflow", "spam", "shutdown"]),
            "outrigger_events_dropped", "Events that were never sent to the API server";
        pub(super) failed: Family<Labels<1>, Counter> = of(["refused", "unreachable"]),
            "outrigger_events_failed", "Writes of events that were given up";
    }
}

/// Counters by `reason`.
fn of<const N: usize>(reasons: [&'static str; N]) -> Family<Labels<1>, Counter> {
    let family = Family::default();
    for reason in reasons {
        count(&family, reason, 0);
    }
    family
}

pub(super) fn count(family: &Family<Labels<1>, Counter>, reason: &'static str, events: u64) {
    family.get_or_create(&[("reason", reason)]).inc_by(events);
}
