//! Every family of metrics of the process, registered before anything runs: the server is there
//! before the parts that count.

#[cfg(test)]
mod tests;

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
use outrigger_runtime::{metric_families, telemetry::RunningControllers};

metric_families! {
    /// The metrics of all parts.
    pub(crate) struct Metrics {
        + pub(crate) client: ClientMetrics;
        + pub(crate) controllers: RunningControllers;
        + pub(crate) csr: CsrMetrics;
        + pub(crate) events: EventMetrics;
        + pub(crate) ipam: IpamMetrics;
        + pub(crate) leader: LeaderMetrics;
        + pub(crate) lifecycle: LifecycleMetrics;
        + pub(crate) node: NodeMetrics;
        + pub(crate) provider: ProviderMetrics;
        + pub(crate) queues: QueueMetrics;
        + pub(crate) route: RouteMetrics;
        + pub(crate) service: ServiceMetrics;
        + pub(crate) serving: ServingMetrics;
        + pub(crate) volume: VolumeMetrics;
        + pub(crate) watch: WatchMetrics;
        + pub(crate) webhook: WebhookMetrics;
    }
}
