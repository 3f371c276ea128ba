//! How the loops over Nodes work: which Nodes are this provider's, and when they may be deleted.

use std::sync::Arc;

use outrigger_core::{
    node::{deletion_limit::DeletionLimits, maintenance::MaintenanceSettings},
    selector::Selector,
};
use outrigger_loops::{lifecycle::LifecycleSettings, node::NodeSettings};

use super::Findings;
use crate::options::table::Flags;

pub(super) fn initialisation(
    flags: &Flags,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> NodeSettings {
    let workers = f.workers(&flags.concurrent_node_syncs);
    let refreshers =
        usize::try_from(flags.concurrent_node_status_updates.value).unwrap_or_default();
    NodeSettings {
        workers,
        refreshers: if refreshers > 0 { refreshers } else { workers },
        refresh_period: f.period(&flags.node_status_update_frequency),
        selector,
        maintenance: MaintenanceSettings {
            condition: flags.maintenance_condition.value,
            taint_before: f.duration(&flags.maintenance_taint_before),
        },
    }
}

pub(super) fn lifecycle(
    flags: &Flags,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> LifecycleSettings {
    LifecycleSettings {
        workers: f.workers(&flags.concurrent_node_lifecycle_syncs),
        selector,
        limits: DeletionLimits {
            enabled: flags.node_deletion_enabled.value,
            burst: f.count(&flags.node_deletion_burst),
            fraction: f.fraction(&flags.node_deletion_fraction),
            window: f.period(&flags.node_deletion_window),
            confirm: f.workers(&flags.node_deletion_confirm) as u32,
            period: f.period(&flags.node_monitor_period),
        },
        out_of_service_after: f.duration(&flags.out_of_service_after),
    }
}

pub(super) fn selector(flags: &Flags, f: &mut Findings) -> Option<Arc<Selector>> {
    let flag = &flags.node_selector;
    if flag.is_empty() {
        return None;
    }
    let selector = flag.parse::<Selector>();
    selector
        .map_err(|error| f.errors.push(format!("{flag} {:?} {error}", flag.value)))
        .ok()
        .map(Arc::new)
}
