//! Results of the events.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

type Labels = [(&'static str, &'static str); 1];

/// Counters of events: `outrigger_events_*`.
#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    /// Written: new to the API server.
    pub(super) created: Counter,
    /// Written: raised the count of one that is there.
    pub(super) repeated: Counter,
    /// Dropped: the queue was full.
    pub(super) overflow: Counter,
    /// Dropped: too many about one object (E-4).
    pub(super) spam: Counter,
    /// Dropped: not written when the process ended.
    pub(super) shutdown: Counter,
    /// Failed: the API server refused it, and would again.
    pub(super) refused: Counter,
    /// Failed: no answer, or one that could have healed, in twelve tries.
    pub(super) unreachable: Counter,
}

impl EventMetrics {
    /// Registers the counters, all of which exist from now on.
    pub fn register(registry: &mut Registry) -> Self {
        let [written, dropped, failed] = [
            ("written", "Writes of events that the API server accepted"),
            ("dropped", "Events that were never sent to the API server"),
            ("failed", "Writes of events that were given up"),
        ]
        .map(|(name, help)| {
            let family = Family::<Labels, Counter>::default();
            registry.register(format!("outrigger_events_{name}"), help, family.clone());
            family
        });
        let of = |family: &Family<Labels, Counter>, reason| {
            family.get_or_create_owned(&[("reason", reason)])
        };
        Self {
            created: of(&written, "created"),
            repeated: of(&written, "repeated"),
            overflow: of(&dropped, "overflow"),
            spam: of(&dropped, "spam"),
            shutdown: of(&dropped, "shutdown"),
            refused: of(&failed, "refused"),
            unreachable: of(&failed, "unreachable"),
        }
    }
}
