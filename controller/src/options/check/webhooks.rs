//! The admission webhook and its HTTPS server.

use outrigger_server::settings::Serving;
use outrigger_volumes::webhook::WEBHOOK;

use super::{Findings, path, tls};
use crate::options::{config::WebhookSettings, controllers, features, table::Flags};

/// Absent if none is served; a mistake is one all the same.
pub(super) fn webhook(flags: &Flags, f: &mut Findings) -> Option<WebhookSettings> {
    let on = controllers::evaluate(&flags.webhooks, &[(WEBHOOK, WEBHOOK)], "webhooks");
    let is_named = on.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Vec::new()
    }) == [true];
    let port = f.port(&flags.webhook_secure_port);
    if port != 0 && flags.webhook_secure_port.value == flags.secure_port.value {
        f.errors
            .push("--webhook-secure-port cannot be the same value as --secure-port".into());
    }
    let certificate = tls::certificate(
        &flags.webhook_tls_cert_file,
        &flags.webhook_tls_private_key_file,
        &flags.webhook_cert_dir,
        f,
    );
    let tls = tls::policy(
        &flags.webhook_tls_min_version,
        &flags.webhook_tls_cipher_suites,
        &flags.webhook_tls_curve_preferences,
        f,
    );
    // W-9: upstream opens a port that never answers, or panics.
    let obstacle = if !flags.feature_gates.enabled(features::WEBHOOK) {
        Some("--feature-gates=CloudControllerManagerWebhook=false")
    } else if port == 0 {
        Some("--webhook-secure-port is 0")
    } else {
        None
    };
    if !is_named {
        return None;
    }
    if let Some(obstacle) = obstacle {
        f.warnings
            .push(format!("--webhooks has no effect: {obstacle}"));
        return None;
    }
    let Some(certificate) = certificate else {
        // W-4: upstream makes one for localhost, which no API server trusts.
        f.errors.push(
            "--webhooks needs --webhook-tls-cert-file and --webhook-tls-private-key-file: a certificate for the host that \
             the MutatingWebhookConfiguration names, of a CA in its caBundle"
                .into(),
        );
        return None;
    };
    Some(WebhookSettings {
        serving: Serving {
            address: flags.webhook_bind_address.value,
            port,
            certificate,
            tls,
            http2: !flags.webhook_disable_http2_serving.value,
            http2_max_streams: None,
            permit_port_sharing: flags.permit_port_sharing.value,
        },
        client_ca: path(&flags.webhook_client_ca_file),
    })
}
