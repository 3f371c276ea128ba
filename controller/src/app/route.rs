//! The loop over routes to Pods: node-route.

use outrigger_core::route::WITHOUT_CLUSTER_CIDR;
use tracing::{info, warn};

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_loops::route::{self, NodeRoute};

/// Account of the loop.
const ACCOUNT: &str = "route-controller";

/// Adds the loop, unless a flag says that there are no routes, or none says where.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::NodeRoute) {
        return Ok(());
    }
    if !config.configure_cloud_routes {
        info!(
            "Skipping {:?}: --configure-cloud-routes is false",
            route::NAME
        );
        return Ok(());
    }
    let Some(settings) = config.route.clone() else {
        // The flag that asks for routes is set by default, so that a cloud without any is none.
        let provider = wiring.context.provider.clone();
        wiring.spawn("warning about routes", async move {
            provider.routes().wait_until_serving(|| {}).await;
            warn!("{WITHOUT_CLUSTER_CIDR}");
            std::future::pending::<()>().await;
        });
        return Ok(());
    };
    let metrics = wiring.context.metrics;
    let inputs = route::subscribe(&wiring.nodes, &metrics.queues);
    let counts = metrics.route.clone();
    let node_route = move |context| NodeRoute::new(context, settings.clone(), counts.clone());
    let controller = Controller::NodeRoute;
    let added = wiring.add(controller, ACCOUNT, route::COMPONENT, inputs, node_route);
    added.await
}
