use clap::Args;

use crate::options::{
    tls::SniPairs,
    values::{Address, GoBool, Int32s, Strings, number},
};

#[derive(Args)]
#[command(next_help_heading = "Secure serving flags")]
pub(in crate::options) struct ServingFlags {
    /// The address to listen on at --secure-port; empty, 0.0.0.0 or ::, all interfaces and IP
    /// families.
    #[arg(long, value_name = "ip", default_value = "0.0.0.0")]
    pub(in crate::options) bind_address: Address,
    /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, which are made
    /// there if they are missing; empty: they are kept in memory. Not used with --tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cert_dir: String,
    /// Serve HTTP/1.1 only.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) disable_http2_serving: GoBool,
    /// Streams that a client may have open on one HTTP/2 connection; 0: the library's default.
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "0")]
    pub(in crate::options) http2_max_streams_per_connection: i64,
    /// Listen with SO_REUSEADDR.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) permit_address_sharing: GoBool,
    /// Listen with SO_REUSEPORT, so that a second process can listen beside us.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) permit_port_sharing: GoBool,
    /// The port of HTTPS with health, metrics and debugging; 0: none.
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "10258")]
    pub(in crate::options) secure_port: i64,
    /// File with the certificate for HTTPS, followed by its chain. Read again when it changes.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_cert_file: String,
    /// Cipher suites that may be negotiated, by their IANA names; empty: all good ones.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) tls_cipher_suites: Strings,
    /// Key exchanges that may be negotiated, by their numbers in TLS: 23, 24 and 29 are
    /// secp256r1, secp384r1 and X25519; empty: all.
    #[arg(long, value_name = "int32Slice", default_value = "")]
    pub(in crate::options) tls_curve_preferences: Int32s,
    /// The least version of TLS: VersionTLS12 (as if it is empty) or VersionTLS13. Nothing older
    /// is spoken.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_min_version: String,
    /// File with the key of --tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_private_key_file: String,
    /// Files of another certificate and its key, with the domains it is for, if not those in it:
    /// example.crt,example.key or foo.crt,foo.key:*.foo.com,foo.com. Can be given several times.
    #[arg(long, value_name = "namedCertKey", default_value = "")]
    pub(in crate::options) tls_sni_cert_key: SniPairs,
}

#[derive(Args)]
#[command(next_help_heading = "Webhook flags")]
pub(in crate::options) struct WebhookFlags {
    /// The webhooks to serve, in the form of --controllers. There are none.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) webhooks: Strings,
}

#[derive(Args)]
#[command(next_help_heading = "Webhook serving flags")]
pub(in crate::options) struct WebhookServingFlags {
    /// The address to listen on at --webhook-secure-port.
    #[arg(long, value_name = "ip", default_value = "0.0.0.0")]
    pub(in crate::options) webhook_bind_address: Address,
    /// As --cert-dir.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_cert_dir: String,
    /// As --disable-http2-serving.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) webhook_disable_http2_serving: GoBool,
    /// The port of HTTPS for webhooks; 0: none.
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "10260")]
    pub(in crate::options) webhook_secure_port: i64,
    /// As --tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_cert_file: String,
    /// As --tls-cipher-suites.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) webhook_tls_cipher_suites: Strings,
    /// As --tls-curve-preferences.
    #[arg(long, value_name = "int32Slice", default_value = "")]
    pub(in crate::options) webhook_tls_curve_preferences: Int32s,
    /// As --tls-min-version.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_min_version: String,
    /// As --tls-private-key-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) webhook_tls_private_key_file: String,
    /// As --tls-sni-cert-key.
    #[arg(long, value_name = "namedCertKey", default_value = "")]
    pub(in crate::options) webhook_tls_sni_cert_key: SniPairs,
}
