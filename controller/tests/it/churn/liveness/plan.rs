//! The faults of a drill: all of it follows from the seed.

use std::{env, fmt, time::Duration};

use fastrand::Rng;
use ipnet::IpNet;

use super::{
    super::plan::blocks,
    fault::{Area, Fault},
    rule::{SERVED, SERVED_AMONG_MANY},
};

/// Until a broken bound has been seen.
const MARGIN: Duration = Duration::from_secs(5);

/// The inputs of a drill.
#[derive(Debug, Clone)]
pub(in crate::churn) struct Plan {
    pub(super) seed: u64,
    pub(super) services: usize,
    /// Nodes that are there from the start.
    pub(super) nodes: usize,
    pub(super) faults: Vec<Fault>,
}

impl fmt::Display for Plan {
    /// How to repeat it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(|fault| fault.name()).collect();
        write!(
            f,
            "OUTRIGGER_TEST_SEED={} OUTRIGGER_TEST_FAULTS={} cargo test -p outrigger-controller --test it -- \
             churn::liveness::one",
            self.seed,
            faults.join(","),
        )
    }
}

impl Plan {
    pub(super) const fn of(seed: u64, faults: Vec<Fault>) -> Self {
        Self {
            seed,
            services: 12,
            nodes: 8,
            faults,
        }
    }

    /// One fault of each area, which the seed chooses unless the environment names them.
    pub(super) fn random(seed: u64) -> Self {
        let named = env::var("OUTRIGGER_TEST_FAULTS").unwrap_or_default();
        let named: Vec<_> = named.split(',').filter_map(Fault::named).collect();
        if !named.is_empty() {
            return Self::of(seed, named);
        }
        let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x11fe);
        let chosen = Area::ALL.map(|area| {
            let of_area = Fault::ALL.into_iter().filter(|fault| fault.area() == area);
            random.choice(of_area.collect::<Vec<_>>())
        });
        Self::of(seed, chosen.into_iter().flatten().collect())
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// True if the controller elects a leader.
    fn elects(&self) -> bool {
        self.has(Fault::LeasePolicy) || self.seed % 2 == 1
    }

    /// Odd seeds are dual-stack.
    pub(super) fn cluster_cidrs(&self) -> Vec<IpNet> {
        blocks(5, self.seed % 2 == 1)
    }

    /// Flags of the mock beside the usual ones.
    pub(super) fn mock_flags(&self) -> Vec<String> {
        let mut random = Rng::with_seed(self.seed);
        let flags = self
            .faults
            .iter()
            .map(|fault| fault.mock_flags(&mut random));
        let mut flags: Vec<_> = flags.flatten().collect();
        if !flags.iter().any(|flag| flag.starts_with("--route-target")) {
            flags.push("--route-target=all".to_owned());
        }
        flags
    }

    /// Flags of the controller beside the usual ones.
    pub(super) fn controller_flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--leader-elect={}", self.elects())];
        let period = if self.has(Fault::Ghosts) {
            "10m"
        } else {
            "10s"
        };
        flags.push(format!("--route-reconciliation-period={period}"));
        if self.has(Fault::SpelledInstance) {
            flags.push("--node-status-update-frequency=5s".to_owned());
        }
        if self.has(Fault::HangingComparison) {
            flags.push("--load-balancer-drift-period=10s".to_owned());
        }
        flags
    }

    /// How long a Service may wait for its load balancer.
    pub(super) fn served(&self) -> Duration {
        if self.has(Fault::OneCall) && self.has(Fault::FewFiles) {
            SERVED_AMONG_MANY
        } else {
            SERVED
        }
    }

    /// How long the faults go on: long enough to observe each goal that they delay beyond its bound.
    pub(super) fn lasts(&self) -> Duration {
        let longest = self.faults.iter().map(|fault| fault.lasts()).max();
        longest.unwrap_or_default().max(self.served()) + MARGIN
    }
}
