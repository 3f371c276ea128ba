//! Admission webhooks and their HTTPS server.

use http::Uri;
use outrigger_core::syntax;

use super::{Findings, path};
use crate::options::{
    config::WebhookSettings,
    controllers,
    features::{Feature, FeatureGates},
    flags::Flags,
    tls,
};
use outrigger_server::settings::{Certificate, Serving};
use outrigger_volumes::webhook::{Webhook, WebhookAddress};

/// Absent if none is served; a mistake is one all the same.
pub(super) fn check(
    flags: &Flags,
    features: &FeatureGates,
    f: &mut Findings,
) -> Option<WebhookSettings> {
    let (webhook, port) = (&flags.webhook, flags.webhook_serving.webhook_secure_port);
    let known = Webhook::ALL.map(|webhook| (webhook.name(), webhook.name()));
    let on = controllers::evaluate(&webhook.webhooks.0, &known, "webhooks");
    let on = on.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Vec::new()
    });
    let served = Webhook::ALL.into_iter().zip(on);
    let webhooks: Vec<_> = served
        .filter_map(|(webhook, on)| on.then_some(webhook))
        .collect();
    let serving = serving(flags, f);
    let address = address(&webhook.webhook_service, &webhook.webhook_url);
    let address = address.map_err(|error| f.errors.push(error)).ok()?;
    let register = webhook.register_webhooks.0;
    if register && serving.certificate != Certificate::Shared {
        f.errors.push(
            "--register-webhooks needs a certificate that the controller makes: with \
             --webhook-tls-cert-file or --webhook-cert-dir it does not know the CA, so write the \
             MutatingWebhookConfiguration yourself"
                .into(),
        );
    }
    if webhooks.is_empty() {
        return None;
    }
    // W-9: upstream opens a port that never answers, or panics.
    if !features.enabled(Feature::CloudControllerManagerWebhook) {
        f.warnings.push(
            "--webhooks has no effect: --feature-gates=CloudControllerManagerWebhook=false".into(),
        );
        return None;
    }
    if port == 0 {
        f.warnings
            .push("--webhooks has no effect: --webhook-secure-port is 0".into());
        return None;
    }
    Some(WebhookSettings {
        webhooks,
        serving,
        client_ca: path(webhook.webhook_client_ca_file.clone()),
        address,
        register,
    })
}

fn serving(flags: &Flags, f: &mut Findings) -> Serving {
    let webhook = &flags.webhook_serving;
    let port = f.port(flag!(webhook.webhook_secure_port));
    if port != 0 && webhook.webhook_secure_port == flags.serving.secure_port {
        f.errors
            .push("--webhook-secure-port cannot be the same value as --secure-port".into());
    }
    let tls = tls::TlsFlags {
        prefix: "webhook-",
        min_version: &webhook.webhook_tls_min_version,
        cipher_suites: &webhook.webhook_tls_cipher_suites,
        curves: &webhook.webhook_tls_curve_preferences,
    };
    let certificate = tls::certificate(
        "webhook-",
        &webhook.webhook_tls_cert_file,
        &webhook.webhook_tls_private_key_file,
        &webhook.webhook_cert_dir,
        &mut f.errors,
    );
    Serving {
        address: webhook.webhook_bind_address.0,
        port,
        certificate: match certificate {
            Certificate::SelfSigned => Certificate::Shared,
            given => given,
        },
        sni: webhook.webhook_tls_sni_cert_key.0.clone(),
        tls: tls.policy(&mut f.errors, &mut f.warnings),
        http2: !webhook.webhook_disable_http2_serving.0,
        http2_max_streams: None,
        permit_port_sharing: flags.serving.permit_port_sharing.0,
        permit_address_sharing: flags.serving.permit_address_sharing.0,
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
