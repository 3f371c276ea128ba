//! Admission webhooks and their HTTPS server.

use http::Uri;
use outrigger_core::syntax;
use outrigger_server::settings::{Certificate, Serving};
use outrigger_volumes::webhook::{Webhook, WebhookAddress};

use super::{Findings, path, tls};
use crate::options::{config::WebhookSettings, controllers, features, table::Flags};

/// Absent if none is served; a mistake is one all the same.
pub(super) fn webhooks(flags: &Flags, f: &mut Findings) -> Option<WebhookSettings> {
    let names = Webhook::ALL.map(|webhook| (webhook.name(), webhook.name()));
    let on = controllers::evaluate(&flags.webhooks, &names, "webhooks");
    let on = on.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Vec::new()
    });
    let webhooks = Webhook::ALL.into_iter().zip(on);
    let webhooks: Vec<_> = webhooks
        .filter_map(|(webhook, on)| on.then_some(webhook))
        .collect();
    let serving = serving(flags, f);
    let address = address(&flags.webhook_service, &flags.webhook_url);
    let address = address.map_err(|error| f.errors.push(error)).ok()?;
    let register = flags.register_webhooks.value;
    if register && serving.certificate != Certificate::Shared {
        f.errors.push(
            "--register-webhooks needs a certificate that the controller makes: with \
             --webhook-tls-cert-file or --webhook-cert-dir it does not know the CA, so write the \
             MutatingWebhookConfiguration yourself"
                .into(),
        );
    }
    // W-9: upstream opens a port that never answers, or panics.
    let obstacle = if !flags.feature_gates.enabled(features::WEBHOOK) {
        Some("--feature-gates=CloudControllerManagerWebhook=false")
    } else if serving.port == 0 {
        Some("--webhook-secure-port is 0")
    } else {
        None
    };
    if webhooks.is_empty() {
        return None;
    }
    if let Some(obstacle) = obstacle {
        f.warnings
            .push(format!("--webhooks has no effect: {obstacle}"));
        return None;
    }
    Some(WebhookSettings {
        webhooks,
        serving,
        client_ca: path(&flags.webhook_client_ca_file),
        address,
        register,
    })
}

fn serving(flags: &Flags, f: &mut Findings) -> Serving {
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
    Serving {
        address: flags.webhook_bind_address.value,
        port,
        certificate: certificate.unwrap_or(Certificate::Shared),
        tls: tls::policy(
            &flags.webhook_tls_min_version,
            &flags.webhook_tls_cipher_suites,
            &flags.webhook_tls_curve_preferences,
            f,
        ),
        http2: !flags.webhook_disable_http2_serving.value,
        http2_max_streams: None,
        permit_port_sharing: flags.permit_port_sharing.value,
    }
}
fn address(service: &str, url: &str) -> Result<WebhookAddress, String> {
    let is_name = |text: &str| syntax::subdomain(text).is_ok();
    let (namespace, name) = service
        .split_once('/')
        .filter(|(namespace, name)| is_name(namespace) && is_name(name))
        .ok_or_else(|| format!("--webhook-service {service:?} must be NAMESPACE/NAME"))?;
    let url = match url {
        "" => None,
        url => {
            let refuse = || format!("--webhook-url {url:?} must be https://HOST[:PORT]");
            let url = url.trim_end_matches('/');
            let uri: Uri = url.parse().map_err(|_| refuse())?;
            let host = uri.host().filter(|host| !host.is_empty());
            let is_plain = uri.scheme_str() == Some("https")
                && uri.path() == "/"
                && uri.query().is_none()
                && uri.authority().is_some_and(|a| !a.as_str().contains('@'));
            let host = host.filter(|_| is_plain).ok_or_else(refuse)?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some((url.to_owned(), host.to_owned()))
        }
    };
    Ok(WebhookAddress {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        url,
    })
}
