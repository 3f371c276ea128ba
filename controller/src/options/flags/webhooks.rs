use clap::Args;

use crate::options::{
    tls::SniPairs,
    values::{Address, GoBool, Int32s, Strings, number},
};

#[derive(Args)]
#[command(next_help_heading = "Webhook flags")]
pub(in crate::options) struct WebhookFlags {
    /// Write the MutatingWebhookConfiguration named as --webhook-service, if there is none.
    ///
    /// Ours: upstream leaves it to the operator
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) register_webhooks: GoBool,
    /// File with CAs; a client of the webhooks needs a certificate that one of them has signed. Empty:
    /// any client is answered.
    ///
    /// Ours: upstream answers any client
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_client_ca_file: String,
    /// Service of the webhooks as NAMESPACE/NAME. Without --webhook-tls-cert-file and --webhook-cert-dir, the
    /// Secret of that name holds a certificate for it, made and renewed by the controller, and the
    /// MutatingWebhookConfiguration of that name gets the CA.
    ///
    /// Ours: upstream's own certificate is for localhost
    #[arg(
        long,
        value_name = "string",
        default_value = "kube-system/cloud-controller-manager-webhook"
    )]
    pub(in crate::options) webhook_service: String,
    /// Address of the webhooks for an API server that cannot reach --webhook-service: https://HOST[:PORT].
    ///
    /// Ours: as for --webhook-service
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_url: String,
    /// Webhooks to serve, in the form of --controllers. Known is persistentvolume-labels.
    ///
    /// Configz: Webhook.Webhooks
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) webhooks: Strings,
}

#[derive(Args)]
#[command(next_help_heading = "Webhook serving flags")]
pub(in crate::options) struct WebhookServingFlags {
    /// Address to listen on at --webhook-secure-port. Empty, 0.0.0.0 and :: stand for all interfaces and
    /// IP families.
    #[arg(long, value_name = "ip", default_value = "0.0.0.0")]
    pub(in crate::options) webhook_bind_address: Address,
    /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, generated if missing.
    /// Ignored with --webhook-tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_cert_dir: String,
    /// Serve webhooks over HTTP/1.1 only.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) webhook_disable_http2_serving: GoBool,
    /// Port of the webhooks; 0: none.
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "10260")]
    pub(in crate::options) webhook_secure_port: i64,
    /// File with the certificate for webhooks, followed by its chain; reloaded when it changes.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_cert_file: String,
    /// As --tls-cipher-suites, for webhooks.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) webhook_tls_cipher_suites: Strings,
    /// As --tls-curve-preferences, for webhooks.
    #[arg(long, value_name = "int32Slice", default_value = "")]
    pub(in crate::options) webhook_tls_curve_preferences: Int32s,
    /// As --tls-min-version, for webhooks.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_min_version: String,
    /// File with the private key of --webhook-tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_private_key_file: String,
    /// As --tls-sni-cert-key, for webhooks.
    #[arg(long, value_name = "namedCertKey", default_value = "")]
    pub(in crate::options) webhook_tls_sni_cert_key: SniPairs,
}
