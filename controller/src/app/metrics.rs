//! Every family of metrics of the process, registered before anything runs: the server is there
//! before the parts that count.

#[cfg(test)]
mod tests;

use prometheus_client::registry::Registry;

use crate::{server::ServingMetrics, webhook::WebhookMetrics};
use outrigger_kube::{
    events::EventMetrics,
    leader::LeaderMetrics,
    metrics::{ClientMetrics, WatchMetrics},
};
use outrigger_loops::{
    csr::CsrMetrics, ipam::IpamMetrics, lifecycle::LifecycleMetrics, node::NodeMetrics,
    queue::QueueMetrics, route::RouteMetrics, service::ServiceMetrics, volume::VolumeMetrics,
};
use outrigger_provider::ProviderMetrics;
use outrigger_runtime::{
    history::HistoryMetrics,
    telemetry::{self, RunningControllers},
};

/// The metrics of all parts.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) client: ClientMetrics,
    pub(crate) controllers: RunningControllers,
    pub(crate) csr: CsrMetrics,
    pub(crate) events: EventMetrics,
    pub(crate) history: HistoryMetrics,
    pub(crate) ipam: IpamMetrics,
    pub(crate) leader: LeaderMetrics,
    pub(crate) lifecycle: LifecycleMetrics,
    pub(crate) node: NodeMetrics,
    pub(crate) provider: ProviderMetrics,
    pub(crate) queues: QueueMetrics,
    pub(crate) route: RouteMetrics,
    pub(crate) service: ServiceMetrics,
    pub(crate) serving: ServingMetrics,
    pub(crate) volume: VolumeMetrics,
    pub(crate) watch: WatchMetrics,
    pub(crate) webhook: WebhookMetrics,
}

impl Metrics {
    /// Registers all.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        telemetry::register(registry);
        Self {
            client: ClientMetrics::register(registry),
            controllers: RunningControllers::register(registry),
            csr: CsrMetrics::register(registry),
            events: EventMetrics::register(registry),
            history: HistoryMetrics::register(registry),
            ipam: IpamMetrics::register(registry),
            leader: LeaderMetrics::register(registry),
            lifecycle: LifecycleMetrics::register(registry),
            node: NodeMetrics::register(registry),
            provider: ProviderMetrics::register(registry),
            queues: QueueMetrics::register(registry),
            route: RouteMetrics::register(registry),
            service: ServiceMetrics::register(registry),
            serving: ServingMetrics::register(registry),
            volume: VolumeMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            webhook: WebhookMetrics::register(registry),
        }
    }
}
