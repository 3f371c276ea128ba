//! Metrics of the loop persistentvolume-labels.

use outrigger_runtime::metric_families;
use prometheus_client::metrics::{counter::Counter, family::Family};

type OfResult = [(&'static str, &'static str); 1];

metric_families! {
    /// `outrigger_volume_*`.
    pub struct VolumeMetrics {
        lookups: Family<OfResult, Counter>,
            "outrigger_volume_lookups", "Lookups of volumes that exist, by their result";
        writes: Counter,
            "outrigger_volume_writes", "Volumes that were labelled";
    }
}

impl VolumeMetrics {
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
