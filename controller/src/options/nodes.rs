//! How the loops over Nodes work: which Nodes are this provider's, and when they may be deleted.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use clap::Args;
use outrigger_core::{
    go_duration,
    node::{deletion_limit::DeletionLimits, maintenance::MaintenanceSettings},
    selector::Selector,
};
use outrigger_loops::{lifecycle::LifecycleSettings, node::NodeSettings};

use super::period;

#[derive(Args)]
#[command(next_help_heading = "Node")]
pub(super) struct NodeFlags {
    /// Number of Nodes tainted or deleted concurrently.
    #[arg(long, default_value = "32")]
    concurrent_node_lifecycle_syncs: NonZeroU16,
    /// Number of initialised Nodes updated concurrently; 0: as --concurrent-node-syncs.
    #[arg(long, default_value = "0")]
    pub(super) concurrent_node_status_updates: u16,
    /// Number of Nodes initialised concurrently.
    #[arg(long, default_value = "32")]
    pub(super) concurrent_node_syncs: NonZeroU16,
    /// Feature gates, as name=true or name=false. CloudNodeAdditionalLabelsReconciliation keeps each additional label that
    /// the provider names of an instance in sync on its Node; the others have no effect.
    #[arg(long, value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,
    /// Give a Node the conditions MaintenancePlanned and, once it has begun, MaintenanceInProgress (KEP-5683, alpha) while
    /// the cloud announces maintenance of its machine.
    #[arg(long)]
    maintenance_condition: bool,
    /// Time before announced maintenance at which the Node gets the taint
    /// outrigger.dev/maintenance-planned:PreferNoSchedule; 0: never.
    #[arg(long, default_value = "0s", value_parser = go_duration::parse)]
    maintenance_taint_before: Duration,
    /// Number of Nodes that may be absent from the cloud or deleted within --node-deletion-window before
    /// deletion stops, whatever the size of the cluster.
    #[arg(long, default_value = "3")]
    node_deletion_burst: u32,
    /// Number of consecutive answers that an instance does not exist, at least --node-monitor-period
    /// apart, before its Node is deleted.
    #[arg(long, default_value = "2")]
    node_deletion_confirm: NonZeroU16,
    /// Delete Nodes whose instance does not exist; false: only report them.
    #[arg(long, default_value = "true")]
    node_deletion_enabled: bool,
    /// Fraction of this provider's Nodes, 0 to 1, that may be absent from the cloud or deleted within
    /// --node-deletion-window before deletion stops.
    #[arg(long, default_value = "0.1", value_parser = fraction)]
    node_deletion_fraction: f64,
    /// Sliding window of the deletion limit, and re-check delay for withheld Nodes.
    #[arg(long, default_value = "5m0s", value_parser = period)]
    node_deletion_window: Duration,
    /// Period in which a Node that is not ready is checked.
    #[arg(long, default_value = "5s", value_parser = period)]
    pub(super) node_monitor_period: Duration,
    /// Label selector of this provider's Nodes among those without a provider ID, such as
    /// 'key=value,other in (a,b)'. Without it all of them, as long as no Node has the provider ID of another
    /// provider.
    #[arg(long)]
    node_selector: Option<Selector>,
    /// Period in which addresses and labels of each initialised Node are refreshed.
    #[arg(long, default_value = "5m0s", value_parser = period)]
    pub(super) node_status_update_frequency: Duration,
    /// Time for which the instance of a Node has to be stopped, while the kubelet is silent, until the Node gets the
    /// taint node.kubernetes.io/out-of-service, by which its Pods and volumes move to other Nodes; 0: never. The
    /// label outrigger.dev.node-restriction.kubernetes.io/out-of-service-after says otherwise for one Node.
    #[arg(long, default_value = "0s", value_parser = go_duration::parse)]
    out_of_service_after: Duration,
}

/// Upstream's, alpha in 1.38.
const ADDITIONAL_LABELS: &str = "CloudNodeAdditionalLabelsReconciliation";

fn gate(text: &str) -> Result<(String, bool), String> {
    let gate = text.split_once('=');
    let gate = gate.and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    gate.ok_or_else(|| "it must be name=true or name=false".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    let fraction = text
        .parse()
        .ok()
        .filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| "it must be a number between 0 and 1".to_owned())
}

impl NodeFlags {
    pub(super) fn node(&self) -> NodeSettings {
        let workers = self.concurrent_node_syncs.get().into();
        NodeSettings {
            workers,
            refreshers: match self.concurrent_node_status_updates {
                0 => workers,
                refreshers => refreshers.into(),
            },
            refresh_period: self.node_status_update_frequency,
            selector: self.selector(),
            manages_additional_labels: self.manages_additional_labels(),
            maintenance: MaintenanceSettings {
                condition: self.maintenance_condition,
                taint_before: self.maintenance_taint_before,
            },
        }
    }

    /// The last mention counts.
    fn manages_additional_labels(&self) -> bool {
        let mut gates = self.feature_gates.iter().rev();
        let gate = gates.find(|(name, _)| name == ADDITIONAL_LABELS);
        gate.is_some_and(|(_, is_on)| *is_on)
    }

    /// A warning that names the gates without effect, if there are any.
    pub(super) fn gates_without_effect(&self) -> Option<String> {
        let names = self.feature_gates.iter().map(|(name, _)| &**name);
        let names: Vec<_> = names.filter(|name| *name != ADDITIONAL_LABELS).collect();
        let text = || {
            format!(
                "gates of --feature-gates have no effect: {}",
                names.join(", ")
            )
        };
        (!names.is_empty()).then(text)
    }

    pub(super) fn selector(&self) -> Option<Arc<Selector>> {
        self.node_selector.clone().map(Arc::new)
    }

    pub(super) fn lifecycle(&self) -> LifecycleSettings {
        LifecycleSettings {
            workers: self.concurrent_node_lifecycle_syncs.get().into(),
            selector: self.selector(),
            limits: DeletionLimits {
                enabled: self.node_deletion_enabled,
                burst: self.node_deletion_burst,
                fraction: self.node_deletion_fraction,
                window: self.node_deletion_window,
                confirm: self.node_deletion_confirm.get().into(),
                period: self.node_monitor_period,
            },
            out_of_service_after: self.out_of_service_after,
        }
    }
}
