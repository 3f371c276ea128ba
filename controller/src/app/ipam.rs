//! The loop over Nodes without Pod CIDRs: node-ipam.

use std::sync::Arc;

use tracing::info;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_loops::{
    ipam::{self, IpamParts, NodeIpam},
    node::OnLookup,
};

/// Account of the loop, which has the rights on Nodes; as in upstream's kube-controller-manager.
const ACCOUNT: &str = "node-controller";

/// Adds the loop, unless no flag asks for it (I-1).
pub(super) async fn add(wiring: &mut Wiring<'_>, on_lookup: OnLookup) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::NodeIpam) {
        return Ok(());
    }
    let Some(allocator) = config.ipam.clone() else {
        info!("Skipping {:?}: --allocate-node-cidrs is false", ipam::NAME);
        return Ok(());
    };
    let identity = wiring.identity(ACCOUNT).await?;
    let (metrics, election) = (wiring.context.metrics, config.election.as_ref());
    let inputs = ipam::subscribe(&wiring.nodes, &metrics.queues);
    let parts = IpamParts {
        api: identity.api.clone(),
        write_limit: election.map(|election| election.terms.write_limit()),
        nodes: Arc::clone(&wiring.nodes),
        provider: wiring.context.provider.clone(),
        events: identity.events.recorder(ipam::COMPONENT),
        on_lookup,
        allocator,
        metrics: metrics.ipam.clone(),
    };
    wiring.add(Controller::NodeIpam, inputs.clone(), move |term| {
        NodeIpam::new(parts.clone(), &inputs, term)
    });
    Ok(())
}
