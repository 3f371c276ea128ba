//! Metrics of the cloud-node-lifecycle loop: upstream's (M-20, M-21), and those of the rate limit of deletions.

use outrigger_core::node::{deletion_limit::Counts, instance::Lookup, lifecycle::Measure};
use prometheus_client::metrics::{
    counter::Counter,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

use outrigger_provider::Error;
use outrigger_runtime::{metric_families, telemetry::Labelled};

metric_families! {
    /// `cloud_node_lifecycle_controller_*` and what we count besides.
    pub struct LifecycleMetrics {
        pub(super) durations: Histogram = Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
            "Duration of one check of a node that is not ready, what was done about it included";
        calls: Labelled<2, Counter> = Labelled::by(["operation", "result"]),
            "cloud_node_lifecycle_controller_cloud_provider_calls",
            "Number of questions to the cloud provider by operation and result";
        pub(super) deletions: Labelled<1, Counter> = Labelled::by(["release"]),
            "outrigger_node_deletions",
            "Nodes that were deleted since their instance does not exist, by what released them";
        withheld: Labelled<1, Counter> = Labelled::by(["reason"]),
            "outrigger_node_deletions_withheld", "How often a node without an instance came to be kept, by reason";
        pub(super) out_of_service: Counter,
            "outrigger_node_out_of_service", "Nodes that were taken out of service since their instance is stopped";
        in_service: Labelled<1, Counter> = Labelled::by(["reason"]),
            "outrigger_node_out_of_service_withheld",
            "How often a node whose instance is stopped came to be kept in service, by reason";
        pub(super) doubts: Labelled<1, Counter> = Labelled::by(["reason"]),
            "outrigger_node_checks_doubted", "Answers about nodes that are not ready that prove nothing, by reason";
        counts: Labelled<1, Gauge> = Labelled::by(["state"]),
            "outrigger_node_deletion_limit_nodes", "Nodes that the rate limit of deletions counts, by what they are";
        stops: Labelled<1, Gauge> = Labelled::by(["state"]),
            "outrigger_node_out_of_service_limit_nodes",
            "Nodes that count before a stopped one is taken out of service, by what they are";
        limit: Gauge<f64, std::sync::atomic::AtomicU64>,
            "outrigger_node_deletion_limit", "Absent and deleted nodes above which deletion stops";
        limited: Gauge,
            "outrigger_node_deletion_limited", "1 while more nodes are absent or deleted than the limit";
    }
}

impl LifecycleMetrics {
    /// One question about one node, which stands for upstream's questions for existence and for
    /// power state.
    pub(super) fn asked(&self, lookup: &Result<Lookup, Error>) {
        let result = match lookup {
            Ok(Lookup::Found(_) | Lookup::NotManaged { .. }) => "success",
            Ok(Lookup::Absent { .. }) => "instance_not_found",
            Err(Error::NotServed { .. } | Error::NotOffered { .. }) => "not_implemented",
            Err(_) => "error",
        };
        self.calls.of(["instance_exists", result]).inc();
    }

    pub(super) fn withheld(&self, measure: Measure, reason: &'static str) {
        let family = match measure {
            Measure::Deletion => &self.withheld,
            Measure::OutOfService => &self.in_service,
        };
        family.of([reason]).inc();
    }

    pub(super) fn counted(&self, counts: &Counts, stops: &Counts) {
        for (what, nodes) in [
            ("owned", counts.nodes),
            ("absent", counts.absent),
            ("awaits_operator", counts.awaiting_operator),
            ("absent_while_ready", counts.absent_while_ready),
            ("deleted", counts.deleted),
        ] {
            self.counts.of([what]).set(nodes as i64);
        }
        for (what, nodes) in [
            ("stopped", stops.absent),
            ("stopped_while_ready", stops.absent_while_ready),
            ("out_of_service", stops.deleted),
        ] {
            self.stops.of([what]).set(nodes as i64);
        }
        self.limit.set(counts.limit);
        self.limited.set(i64::from(counts.is_exceeded()));
    }
}
