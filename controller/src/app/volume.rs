//! The loop over volumes: persistentvolume-labels.

use std::sync::Arc;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_kubernetes::store::Store;
use outrigger_volumes::volume::{self, VolumeLabels};

/// Account of the loop, as that of upstream's former controller.
const ACCOUNT: &str = "pvl-controller";

/// Adds the loop and starts the store of volumes, if `--controllers` names the loop. The store is empty before a
/// provider serves volumes.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::VolumeLabels) {
        return Ok(());
    }
    let (provider, metrics) = (wiring.context.provider.clone(), wiring.context.metrics);
    let volumes = Arc::<Store<_>>::default();
    let inputs = volume::subscribe(&volumes, &metrics.queues);
    let (store, counts) = (Arc::clone(&volumes), metrics.volume.clone());
    let volume_labels =
        move |context| VolumeLabels::new(context, Arc::clone(&store), counts.clone());
    let controller = Controller::VolumeLabels;
    let added = wiring.add(
        controller,
        ACCOUNT,
        volume::COMPONENT,
        inputs,
        volume_labels,
    );
    added.await?;
    let is_served = async move { provider.volumes().wait_until_serving(|| {}).await };
    wiring.watch(&volumes, is_served);
    Ok(())
}
