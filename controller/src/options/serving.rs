//! The HTTPS server, and the access to it.

use std::{net::IpAddr, time::Duration};

use crate::server::settings::{Authentication, Authorization, Certificate, Serving};
use clap::Args;
use outrigger_core::go_duration;

use super::{given, items, tls};

#[derive(Args)]
#[command(next_help_heading = "Secure serving")]
pub(super) struct ServingFlags {
    /// Address to listen on at --secure-port. 0.0.0.0 and :: stand for all interfaces and IP families.
    #[arg(long, default_value = "0.0.0.0")]
    pub(super) bind_address: IpAddr,
    /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, generated if missing;
    /// empty: kept in memory. Ignored with --tls-cert-file.
    #[arg(long, default_value = "")]
    cert_dir: String,
    /// Listen with SO_REUSEPORT, so that a second process can share the port.
    #[arg(long)]
    pub(super) permit_port_sharing: bool,
    /// Port of HTTPS with health, metrics and debugging; 0: none.
    #[arg(long, default_value = "10258")]
    pub(super) secure_port: u16,
    /// File with the certificate for HTTPS, followed by its chain; reloaded when it changes.
    #[arg(long, default_value = "")]
    tls_cert_file: String,
    /// Minimum version of TLS: VersionTLS12 or VersionTLS13; empty: VersionTLS12.
    #[arg(long, default_value = "", value_parser = tls::VERSIONS)]
    tls_min_version: String,
    /// File with the private key of --tls-cert-file.
    #[arg(long, default_value = "")]
    tls_private_key_file: String,
}

#[derive(Args)]
#[command(next_help_heading = "Authentication and authorization")]
pub(super) struct AccessFlags {
    /// Kubeconfig with the right to create tokenreviews.authentication.k8s.io. If empty outside of a Pod,
    /// callers with a token are anonymous, and no client CA is looked up in the cluster.
    #[arg(long, default_value = "")]
    authentication_kubeconfig: String,
    /// Do not look up missing authentication configuration in the cluster.
    #[arg(long)]
    authentication_skip_lookup: bool,
    /// Time for which the answer to a TokenReview is cached.
    #[arg(long, default_value = "10s", value_parser = go_duration::parse)]
    authentication_token_webhook_cache_ttl: Duration,
    /// File with CAs of client certificates; a certificate's common name is the user.
    #[arg(long, default_value = "")]
    client_ca_file: String,
    /// HTTP paths served without authorization; a trailing * matches any suffix.
    #[arg(long, value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,
    /// Kubeconfig with the right to create subjectaccessreviews.authorization.k8s.io. If empty outside of
    /// a Pod, only --authorization-always-allow-paths are served.
    #[arg(long, default_value = "")]
    authorization_kubeconfig: String,
    /// Time for which a SubjectAccessReview that allows is cached.
    #[arg(long, default_value = "10s", value_parser = go_duration::parse)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// Time for which a SubjectAccessReview that denies is cached.
    #[arg(long, default_value = "10s", value_parser = go_duration::parse)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl ServingFlags {
    /// Absent if there is none.
    pub(super) fn settings(&self) -> Result<Option<Serving>, String> {
        let files = [&self.tls_cert_file, &self.tls_private_key_file];
        let certificate = tls::certificate("", files, &self.cert_dir)?;
        let serving = Serving {
            address: self.bind_address,
            port: self.secure_port,
            certificate: certificate.unwrap_or(Certificate::SelfSigned),
            min_tls: tls::min_version(&self.tls_min_version),
            permit_port_sharing: self.permit_port_sharing,
        };
        Ok((self.secure_port != 0).then_some(serving))
    }
}

impl AccessFlags {
    pub(super) fn authentication(&self) -> Authentication {
        Authentication {
            kubeconfig: given(&self.authentication_kubeconfig),
            skip_lookup: self.authentication_skip_lookup,
            token_cache_ttl: self.authentication_token_webhook_cache_ttl,
            client_ca_file: given(&self.client_ca_file),
        }
    }

    pub(super) fn authorization(&self) -> Authorization {
        Authorization {
            kubeconfig: given(&self.authorization_kubeconfig),
            always_allow_paths: items(&self.authorization_always_allow_paths),
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
        }
    }
}
