//! Metrics of the node-ipam loop: upstream's (M-40 to M-44), and how many CIDRs are left.

use std::sync::atomic::AtomicU64;

use outrigger_core::{cidr::Cidr, ipam::pool::PoolSize};
use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{
    counter::Counter,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

/// The label of upstream's metrics.
const POOL: [&str; 1] = ["clusterCIDR"];

metric_families! {
    /// `node_ipam_controller_*` and what we count besides.
    pub struct IpamMetrics {
        allocations: Labelled<1, Counter> = Labelled::by(POOL),
            "node_ipam_controller_cidrset_cidrs_allocations", "Pod CIDRs that were allocated and written";
        releases: Labelled<1, Counter> = Labelled::by(POOL),
            "node_ipam_controller_cidrset_cidrs_releases", "Pod CIDRs that became free";
        max: Labelled<1, Gauge> = Labelled::by(POOL),
            "node_ipam_controller_cirdset_max_cidrs", "Pod CIDRs that Nodes can have at most";
        usage: Labelled<1, Gauge<f64, AtomicU64>> = Labelled::by(POOL),
            "node_ipam_controller_cidrset_usage_cidrs", "Fraction of the Pod CIDRs that are in use";
        free: Labelled<1, Gauge> = Labelled::by(["cluster_cidr"]),
            "outrigger_node_ipam_free_cidrs", "Pod CIDRs that are left";
        tries: Labelled<1, Histogram> = Labelled::made_by(POOL, tries),
            "node_ipam_controller_cidrset_allocation_tries_per_request", "Pod CIDRs looked at for one allocation";
        pub(super) problems: Labelled<1, Counter> = Labelled::by(["reason"]),
            "outrigger_node_ipam_problems", "Pod CIDRs of Nodes that are reported, by reason of the event";
    }
}

fn tries() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 5.0, 5))
}

impl IpamMetrics {
    /// One CIDR of each pool was written to a Node.
    pub(super) fn allocated(&self, cidrs: &[Box<str>], pools: impl Iterator<Item = Cidr>) {
        let cidrs: Vec<_> = cidrs.iter().filter_map(|cidr| Cidr::parse(cidr)).collect();
        for range in pools.filter(|range| cidrs.iter().any(|cidr| range.contains(*cidr))) {
            self.allocations.of([range.to_string()]).inc();
            // The next free one is found without a look at others.
            self.tries.of([range.to_string()]).observe(1.0);
        }
    }

    /// CIDRs of a Node that is gone.
    pub(super) fn released(&self, cidrs: &[Cidr], pools: impl Iterator<Item = Cidr>) {
        for range in pools.filter(|range| cidrs.iter().any(|cidr| range.contains(*cidr))) {
            self.releases.of([range.to_string()]).inc();
        }
    }

    /// How full the pools are.
    pub(super) fn sizes(&self, pools: impl Iterator<Item = (Cidr, PoolSize)>) {
        for (range, size) in pools {
            let range = [range.to_string()];
            self.max.of(range.clone()).set(size.total as i64);
            self.free.of(range.clone()).set(size.free as i64);
            let used = size.total.saturating_sub(size.free);
            let usage = used as f64 / size.total.max(1) as f64;
            self.usage.of(range).set(usage);
        }
    }
}
