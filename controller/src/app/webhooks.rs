//! Admission webhooks, on every replica from the start on (W-3).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Fatal, access::ApiAccess, metrics::Metrics, supervise::Supervisor};
use crate::options::config::WebhookSettings;
use outrigger_server::{Checks, ClientCa, Scope, Server, settings::Certificate};
use outrigger_volumes::webhook::{Registration, SharedCertificate, SharedParts, WebhookServer};

/// The port is taken, and the files of the flags are read.
pub(super) struct Bound {
    settings: WebhookSettings,
    server: Server,
    client_ca: Option<ClientCa>,
}

/// Takes the port.
pub(super) fn bind(settings: &WebhookSettings) -> Result<Bound, Fatal> {
    let server = Server::bind(&settings.serving).map_err(|error| Fatal::setup(&error))?;
    let client_ca = settings.client_ca.clone();
    let client_ca = client_ca.map(|path| ClientCa::read("--webhook-client-ca-file", path));
    let client_ca = client_ca
        .transpose()
        .map_err(|error| Fatal::setup(&error))?;
    Ok(Bound {
        settings: settings.clone(),
        server,
        client_ca,
    })
}

impl Bound {
    /// Begins to serve; until there is something to decide with, each request is an error.
    pub(super) fn start(
        self,
        access: &ApiAccess,
        metrics: &Metrics,
        checks: &Checks,
        parts: &mut Supervisor,
        stop: &CancellationToken,
    ) -> Arc<WebhookServer> {
        let Self {
            settings,
            server,
            client_ca,
        } = self;
        if settings.serving.certificate == Certificate::Shared {
            let certificate = SharedCertificate::new(SharedParts {
                api: access.root("webhook-certificate"),
                certificates: server.certificates(),
                registration: Registration {
                    webhooks: settings.webhooks.clone(),
                    address: settings.address,
                    creates: settings.register,
                },
            });
            let checked = Arc::clone(&certificate);
            checks.add("webhook-certificate", Scope::Readiness, move || {
                checked.check()
            });
            parts.spawn("certificate of the webhooks", certificate.run(stop.clone()));
        }
        let webhooks = WebhookServer::new(&settings.webhooks, client_ca, metrics.webhook.clone());
        let webhooks = Arc::new(webhooks);
        let connections = metrics.serving.of("webhook");
        let running = Arc::clone(&webhooks).run(server, connections, stop.clone());
        parts.spawn("HTTPS server of the webhooks", running);
        webhooks
    }
}
