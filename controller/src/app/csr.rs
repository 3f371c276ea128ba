//! The loop over requests for certificates: kubelet-serving-approving.

use std::sync::Arc;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_kubernetes::store::Store;
use outrigger_loops::csr::{self, KubeletServing};

/// Account of the loop. Not kube-controller-manager's `certificate-controller`, which would get a right more.
const ACCOUNT: &str = "kubelet-serving-approver";

/// Adds the loop and starts the store of requests, if `--controllers` names the loop.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::KubeletServing) {
        return Ok(());
    }
    let metrics = wiring.context.metrics;
    let csrs = Arc::<Store<_>>::default();
    let inputs = csr::subscribe(&csrs, &metrics.queues);
    let (store, counts) = (Arc::clone(&csrs), metrics.csr.clone());
    let kubelet_serving =
        move |context| KubeletServing::new(context, Arc::clone(&store), counts.clone());
    let controller = Controller::KubeletServing;
    let added = wiring.add(controller, ACCOUNT, csr::COMPONENT, inputs, kubelet_serving);
    added.await?;
    wiring.watch(&csrs, std::future::ready(()));
    Ok(())
}
