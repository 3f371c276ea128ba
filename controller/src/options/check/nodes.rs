//! How the loops over Nodes work: which Nodes are this provider's, and when they may be deleted.

use std::{sync::Arc, time::Duration};

use outrigger_core::{node::brake::DeletionLimits, selector::Selector};

use super::Findings;
use crate::options::flags::{LifecycleFlags, NodeFlags};
use outrigger_loops::{lifecycle::LifecycleSettings, node::NodeSettings};

pub(super) fn initialisation(
    flags: &NodeFlags,
    refresh_period: Duration,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> NodeSettings {
    let workers = f.workers(flag!(flags.concurrent_node_syncs));
    let refreshers = usize::try_from(flags.concurrent_node_status_updates);
    NodeSettings {
        workers,
        refreshers: refreshers
            .ok()
            .filter(|count| *count > 0)
            .unwrap_or(workers),
        refresh_period,
        selector,
    }
}

pub(super) fn lifecycle(
    flags: &LifecycleFlags,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> LifecycleSettings {
    let workers = f.workers(flag!(flags.concurrent_node_lifecycle_syncs));
    let period = f.period(flag!(flags.node_monitor_period));
    let confirm = f.workers(flag!(flags.node_deletion_confirm));
    LifecycleSettings {
        workers,
        selector,
        limits: DeletionLimits {
            enabled: flags.node_deletion_enabled.0,
            burst: f.count(flag!(flags.node_deletion_burst)),
            fraction: f.fraction(flag!(flags.node_deletion_fraction)),
            window: f.period(flag!(flags.node_deletion_window)),
            confirm: u32::try_from(confirm).unwrap_or(u32::MAX),
            period,
        },
    }
}

pub(super) fn selector(text: &str, f: &mut Findings) -> Option<Arc<Selector>> {
    if text.is_empty() {
        return None;
    }
    let selector = text.parse::<Selector>();
    selector
        .map_err(|error| f.errors.push(format!("--node-selector {text:?} {error}")))
        .ok()
        .map(Arc::new)
}
