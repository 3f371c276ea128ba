//! Upstream's metrics of elections (M-60).

use outrigger_runtime::metric_families;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

type Labels = [(&'static str, String); 1];

metric_families! {
    /// `leader_election_*`, by the name of the lease; a lock's series appear with its elector.
    pub struct LeaderMetrics {
        leading: Family<Labels, Gauge>,
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name";
        slow: Family<Labels, Counter>,
            "leader_election_slowpath",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name";
    }
}

impl LeaderMetrics {
    /// A series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        self.leading("cloud-controller-manager", true);
        self.slow("cloud-controller-manager");
    }

    pub(super) fn leading(&self, lease: &str, leading: bool) {
        self.leading
            .get_or_create(&[("name", lease.to_owned())])
            .set(i64::from(leading));
    }

    /// A renewal that had to read the lease first.
    pub(super) fn slow(&self, lease: &str) {
        self.slow.get_or_create(&[("name", lease.to_owned())]).inc();
    }
}
