//! Metrics of the node-ipam loop: upstream's (M-40 to M-44), and how many CIDRs are left.

use std::sync::atomic::AtomicU64;

use outrigger_core::{cidr::Cidr, ipam::pool::PoolSize};
use outrigger_runtime::metric_families;
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

type OfPool = [(&'static str, String); 1];
type OfReason = [(&'static str, &'static str); 1];

metric_families! {
    /// `node_ipam_controller_*` and what we count besides.
    pub struct IpamMetrics {
        allocations: Family<OfPool, Counter>,
            "node_ipam_controller_cidrset_cidrs_allocations", "Pod CIDRs that were allocated and written";
        releases: Family<OfPool, Counter>,
            "node_ipam_controller_cidrset_cidrs_releases", "Pod CIDRs that became free";
        max: Family<OfPool, Gauge>,
            "node_ipam_controller_cirdset_max_cidrs", "Pod CIDRs that Nodes can have at most";
        usage: Family<OfPool, Gauge<f64, AtomicU64>>,
            "node_ipam_controller_cidrset_usage_cidrs", "Fraction of the Pod CIDRs that are in use";
        free: Family<OfPool, Gauge>,
            "outrigger_node_ipam_free_cidrs", "Pod CIDRs that are left";
        tries: Family<OfPool, Histogram, fn() -> Histogram> = Family::new_with_constructor(tries),
            "node_ipam_controller_cidrset_allocation_tries_per_request", "Pod CIDRs looked at for one allocation";
        problems: Family<OfReason, Counter>,
            "outrigger_node_ipam_problems", "Pod CIDRs of Nodes that are reported, by reason of the event";
    }
}

fn tries() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 5.0, 5))
}

fn of(range: Cidr) -> OfPool {
    [("clusterCIDR", range.to_string())]
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl IpamMetrics {
    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        let Some(range) = Cidr::parse("10.0.0.0/16") else {
            return;
        };
        let size = PoolSize {
            total: 256,
            free: 256,
        };
        self.allocated(&["10.0.1.0/24".into()], [range].into_iter());
        self.released(&[range], [range].into_iter());
        self.sizes([(range, size)].into_iter());
        self.problem("DuplicatePodCIDR");
    }

    /// One CIDR of each pool was written to a Node.
    pub(super) fn allocated(&self, cidrs: &[Box<str>], pools: impl Iterator<Item = Cidr>) {
        let cidrs: Vec<_> = cidrs.iter().filter_map(|cidr| Cidr::parse(cidr)).collect();
        for range in pools.filter(|range| cidrs.iter().any(|cidr| range.contains(*cidr))) {
            self.allocations.get_or_create(&of(range)).inc();
            // The next free one is found without a look at others.
            self.tries.get_or_create(&of(range)).observe(1.0);
        }
    }

    /// CIDRs of a Node that is gone.
    pub(super) fn released(&self, cidrs: &[Cidr], pools: impl Iterator<Item = Cidr>) {
        for range in pools.filter(|range| cidrs.iter().any(|cidr| range.contains(*cidr))) {
            self.releases.get_or_create(&of(range)).inc();
        }
    }

    /// How full the pools are.
    pub(super) fn sizes(&self, pools: impl Iterator<Item = (Cidr, PoolSize)>) {
        for (range, size) in pools {
            self.max.get_or_create(&of(range)).set(gauge(size.total));
            let own = [("cluster_cidr", range.to_string())];
            self.free.get_or_create(&own).set(gauge(size.free));
            let used = size.total.saturating_sub(size.free);
            #[expect(clippy::cast_precision_loss, reason = "a fraction for a graph")]
            let usage = used as f64 / size.total.max(1) as f64;
            self.usage.get_or_create(&of(range)).set(usage);
        }
    }

    /// A problem was reported.
    pub(super) fn problem(&self, reason: &'static str) {
        self.problems.get_or_create(&[("reason", reason)]).inc();
    }
}
