//! Volumes: the loop persistentvolume-labels, and the admission webhook of that name.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Fatal, metrics::Metrics, supervise::Supervisor, wiring::Wiring};
use crate::options::{config::WebhookSettings, controllers::Controller};
use outrigger_kubernetes::store::Store;
use outrigger_server::{ClientCa, Server};
use outrigger_volumes::{
    volume::{self, VolumeLabels},
    webhook::WebhookServer,
};

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

/// Takes the webhook's port, reads the files of its flags, and begins to serve, on every replica from the start on (W-3);
/// until there is something to decide with, each request is an error.
pub(super) fn serve_webhook(
    settings: &WebhookSettings,
    metrics: &Metrics,
    parts: &mut Supervisor,
    stop: &CancellationToken,
) -> Result<Arc<WebhookServer>, Fatal> {
    let server = Server::bind(&settings.serving).map_err(|error| Fatal::setup(&error))?;
    let client_ca = settings.client_ca.clone();
    let client_ca = client_ca.map(|path| ClientCa::read("--webhook-client-ca-file", path));
    let client_ca = client_ca
        .transpose()
        .map_err(|error| Fatal::setup(&error))?;
    let webhook = Arc::new(WebhookServer::new(client_ca, metrics.webhook.clone()));
    let connections = metrics.serving.of("webhook");
    let running = Arc::clone(&webhook).run(server, connections, stop.clone());
    parts.spawn("HTTPS server of the webhook", running);
    Ok(webhook)
}
