//! Settings of an HTTPS server, and of the access to it.

use std::{convert::Infallible, net::IpAddr, path::PathBuf};

use clap::Args;

/// One HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Unspecified (`0.0.0.0`, `::`): all interfaces and both families.
    pub address: IpAddr,
    /// Never 0.
    pub port: u16,
    /// The certificate for all clients.
    pub certificate: Certificate,
    /// The least that is spoken.
    pub min_tls: TlsVersion,
    /// `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
}

/// Where a server's certificate comes from. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Made at start, kept in memory.
    SelfSigned,
    /// In files.
    Files {
        /// PEM, with the chain behind the certificate.
        certificate: PathBuf,
        /// PEM.
        key: PathBuf,
    },
}

/// A version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The file of a flag; absent: its text is empty.
pub type GivenPath = Option<PathBuf>;

/// Reads the file of a flag.
pub fn given_path(text: &str) -> Result<GivenPath, Infallible> {
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Authentication and authorization of callers of the HTTPS server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Authentication and authorization")]
pub struct AccessSettings {
    /// Kubeconfig with the right to create tokenreviews.authentication.k8s.io. If empty outside of a Pod,
    /// callers with a token are anonymous, and no client CA is looked up in the cluster.
    #[arg(long, default_value = "", value_parser = given_path)]
    pub authentication_kubeconfig: GivenPath,
    /// Do not look up missing authentication configuration in the cluster.
    #[arg(long)]
    pub authentication_skip_lookup: bool,
    /// File with CAs of client certificates; a certificate's common name is the user.
    #[arg(long, default_value = "", value_parser = given_path)]
    pub client_ca_file: GivenPath,
    /// HTTP paths served without authorization; a trailing * matches any suffix.
    #[arg(long, value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,
    /// Kubeconfig with the right to create subjectaccessreviews.authorization.k8s.io. If empty outside of
    /// a Pod, only --authorization-always-allow-paths are served.
    #[arg(long, default_value = "", value_parser = given_path)]
    pub authorization_kubeconfig: GivenPath,
}
