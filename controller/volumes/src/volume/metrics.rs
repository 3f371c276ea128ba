//! Metrics of the loop persistentvolume-labels.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

type OfResult = [(&'static str, &'static str); 1];

/// `outrigger_volume_*`.
#[derive(Clone, Debug)]
pub struct VolumeMetrics {
    lookups: Family<OfResult, Counter>,
    writes: Counter,
}

impl VolumeMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            lookups: Family::default(),
            writes: Counter::default(),
        };
        registry.register(
            "outrigger_volume_lookups",
            "Lookups of volumes that exist, by their result",
            this.lookups.clone(),
        );
        registry.register(
            "outrigger_volume_writes",
            "Volumes that were labelled",
            this.writes.clone(),
        );
        this
    }

    pub(super) fn looked_up(&self, result: &'static str) {
        self.lookups
            .get_or_create_owned(&[("result", result)])
            .inc();
    }

    pub(super) fn written(&self) {
        self.writes.inc();
    }

    /// A series in each family.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        self.looked_up("found");
        self.written();
    }
}
