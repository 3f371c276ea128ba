use clap::Args;

use crate::options::{
    tls::SniPairs,
    values::{Address, GoBool, Int32s, Strings, number},
};

#[derive(Args)]
#[command(next_help_heading = "Secure serving flags")]
pub(in crate::options) struct ServingFlags {
    /// Address to listen on at --secure-port. Empty, 0.0.0.0 and :: stand for all interfaces and IP
    /// families.
    ///
    /// Configz: Generic.Address
    #[arg(long, value_name = "ip", default_value = "0.0.0.0")]
    pub(in crate::options) bind_address: Address,
    /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, generated if
    /// missing; empty: kept in memory. Ignored with --tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cert_dir: String,
    /// Serve HTTP/1.1 only.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) disable_http2_serving: GoBool,
    /// Maximum number of streams that a client may open on one HTTP/2 connection; 0: 16.
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "0")]
    pub(in crate::options) http2_max_streams_per_connection: i64,
    /// Listen with SO_REUSEADDR.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) permit_address_sharing: GoBool,
    /// Listen with SO_REUSEPORT, so that a second process can share the port.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) permit_port_sharing: GoBool,
    /// Port of HTTPS with health, metrics and debugging; 0: none.
    ///
    /// Configz: Generic.Port
    #[arg(long, value_name = "int", value_parser = number::int, default_value = "10258")]
    pub(in crate::options) secure_port: i64,
    /// File with the certificate for HTTPS, followed by its chain; reloaded when it changes.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_cert_file: String,
    /// IANA names of the cipher suites to allow, separated by commas; empty: all that are secure.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) tls_cipher_suites: Strings,
    /// TLS numbers of the key exchanges to allow, such as 23 (secp256r1), 24 (secp384r1) and 29
    /// (X25519); empty: all.
    #[arg(long, value_name = "int32Slice", default_value = "")]
    pub(in crate::options) tls_curve_preferences: Int32s,
    /// Minimum version of TLS: VersionTLS12 or VersionTLS13; empty: VersionTLS12.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_min_version: String,
    /// File with the private key of --tls-cert-file.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) tls_private_key_file: String,
    /// Files of another certificate and its key, with the domains it is for, if not those in it:
    /// example.crt,example.key or foo.crt,foo.key:*.foo.com,foo.com. Can be set several times.
    #[arg(long, value_name = "namedCertKey", default_value = "")]
    pub(in crate::options) tls_sni_cert_key: SniPairs,
}
