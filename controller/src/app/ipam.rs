//! The loop over Nodes without Pod CIDRs: node-ipam.

use std::sync::Arc;

use tracing::info;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_loops::{
    ipam::{self, NodeIpam},
    lifecycle::OnLookup,
};

/// Account of the loop, which has the rights on Nodes; as in upstream's kube-controller-manager.
const ACCOUNT: &str = "node-controller";

/// Adds the loop, if `--controllers` names it and `--allocate-node-cidrs` is set (not I-1).
pub(super) async fn add(wiring: &mut Wiring<'_>, on_lookup: OnLookup) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::NodeIpam) {
        return Ok(());
    }
    let Some(allocator) = config.ipam.clone() else {
        info!("Skipping {:?}: --allocate-node-cidrs is false", ipam::NAME);
        return Ok(());
    };
    let (metrics, election) = (wiring.context.metrics, config.election.as_ref());
    let write_limit = election.map(|election| election.durations.write_limit());
    let counts = metrics.ipam.clone();
    let inputs = ipam::subscribe(&wiring.nodes, &metrics.queues);
    let node_ipam = move |context| {
        let (allocator, on_lookup) = (allocator.clone(), Arc::clone(&on_lookup));
        NodeIpam::new(context, allocator, write_limit, on_lookup, counts.clone())
    };
    let controller = Controller::NodeIpam;
    let added = wiring.add(controller, ACCOUNT, ipam::COMPONENT, inputs, node_ipam);
    added.await
}
