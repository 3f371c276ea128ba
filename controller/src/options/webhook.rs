//! The admission webhook and its HTTPS server.

use std::net::IpAddr;

use crate::{
    server::settings::{GivenPath, Serving, given_path},
    webhook::WEBHOOK,
};
use clap::Args;

use super::{config::WebhookSettings, controllers, items, serving::ServingFlags, tls};

#[derive(Args)]
#[command(next_help_heading = "Webhook")]
pub(super) struct WebhookFlags {
    /// Address to listen on at --webhook-secure-port. 0.0.0.0 and :: stand for all interfaces and IP families.
    #[arg(long, default_value = "0.0.0.0")]
    webhook_bind_address: IpAddr,
    /// File with CAs; a client of the webhooks needs a certificate that one of them has signed. Empty:
    /// any client is answered.
    #[arg(long, default_value = "", value_parser = given_path)]
    webhook_client_ca_file: GivenPath,
    /// Port of the webhooks; 0: none.
    #[arg(long, default_value = "10260")]
    webhook_secure_port: u16,
    /// File with the certificate for webhooks, followed by its chain; reloaded when it changes.
    #[arg(long, default_value = "", value_parser = given_path)]
    webhook_tls_cert_file: GivenPath,
    /// The same as --tls-min-version, for webhooks.
    #[arg(long, default_value = "", value_parser = tls::VERSIONS)]
    webhook_tls_min_version: String,
    /// File with the private key of --webhook-tls-cert-file.
    #[arg(long, default_value = "", value_parser = given_path)]
    webhook_tls_private_key_file: GivenPath,
    /// Webhooks to serve, in the form of --controllers. Known is persistentvolume-labels.
    #[arg(long, value_delimiter = ',')]
    pub(super) webhooks: Vec<String>,
}

impl WebhookFlags {
    /// Absent if none is served; a mistake is one all the same.
    pub(super) fn settings(
        &self,
        https: &ServingFlags,
        warnings: &mut Vec<String>,
    ) -> Result<Option<WebhookSettings>, String> {
        let port = self.webhook_secure_port;
        if port != 0 && port == https.secure_port {
            return Err(
                "--webhook-secure-port cannot be the same value as --secure-port".to_owned(),
            );
        }
        let files = (
            &self.webhook_tls_cert_file,
            &self.webhook_tls_private_key_file,
        );
        let certificate = tls::certificate("webhook-", files)?;
        let named = items(&self.webhooks);
        if controllers::evaluate(&named, &[[WEBHOOK]], "webhooks")? != [true] {
            return Ok(None);
        }
        // W-9: upstream opens a port that never answers, or panics.
        if port == 0 {
            warnings.push("--webhooks has no effect with --webhook-secure-port=0".to_owned());
            return Ok(None);
        }
        // W-4: upstream makes one for localhost, which no API server trusts.
        let certificate = certificate.ok_or(
            "--webhooks needs --webhook-tls-cert-file and --webhook-tls-private-key-file: a certificate for the host that \
             the MutatingWebhookConfiguration names, of a CA in its caBundle",
        )?;
        Ok(Some(WebhookSettings {
            serving: Serving {
                address: self.webhook_bind_address,
                port,
                certificate,
                min_tls: tls::min_version(&self.webhook_tls_min_version),
                permit_port_sharing: https.permit_port_sharing,
            },
            client_ca: self.webhook_client_ca_file.clone(),
        }))
    }
}
