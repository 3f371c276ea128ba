//! Settings of an HTTPS server, and of the access to it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use serde_json::Value;

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
        /// In `--cert-dir`: both are made at start if they are missing. In other folders that is an error.
        are_made: bool,
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

/// Authentication of callers of the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// For `TokenReview` and the lookup of CAs; absent: in a Pod its service account, else every
    /// caller is anonymous.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster is not asked for settings that the flags leave out.
    pub skip_lookup: bool,
    /// How long the answer about a token is believed.
    pub token_cache_ttl: Duration,
    /// CAs of client certificates.
    pub client_ca_file: Option<PathBuf>,
}

/// Authorization of callers of the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// For `SubjectAccessReview`; absent: in a Pod its service account, else only
    /// [`Self::always_allow_paths`].
    pub kubeconfig: Option<PathBuf>,
    /// Paths that need no right; a trailing `*` stands for anything.
    pub always_allow_paths: Vec<String>,
    /// How long a yes is believed.
    pub authorized_ttl: Duration,
    /// How long a no is believed.
    pub unauthorized_ttl: Duration,
}

/// Pages for people on the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSettings {
    /// The object of `/configz`.
    pub configz: Value,
    /// `--profiling`: there are pages below `/debug/`.
    pub profiling: bool,
}
