//! The server's TLS configuration: certificates, and the request for client certificates.

mod files;
mod made;
mod peer;
mod resolver;

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};

use self::peer::AnyClient;
pub use self::{made::Pem, resolver::Certificates};
use crate::settings::{Serving, TlsPolicy, TlsVersion};

/// The server has no certificate that it can use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key that cannot be used.
    #[error("certificate {}, key {}: {reason}", certificate.display(), key.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The defect.
        reason: String,
    },
    /// No certificate could be made.
    #[error("cannot make a self-signed certificate: {0}")]
    Made(#[from] rcgen::Error),
    /// The TLS library refuses the settings.
    #[error("TLS settings: {0}")]
    Settings(#[from] rustls::Error),
}

/// The settings of a server, and the certificates in them, which change with their files.
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) certificates: Arc<Certificates>,
}

impl Tls {
    /// Reads or makes the certificates.
    pub(super) fn new(serving: &Serving) -> Result<Self, TlsError> {
        let crypto = Arc::new(crypto(&serving.tls));
        let certificates = Arc::new(Certificates::load(serving, Arc::clone(&crypto))?);
        let versions: &[_] = match serving.tls.min_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::new(AnyClient::new(crypto)))
            .with_cert_resolver(Arc::clone(&certificates) as _);
        // Any client could fill their store, with its own certificates in them; probes begin a new session each time.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = if serving.http2 {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        } else {
            vec![b"http/1.1".to_vec()]
        };
        Ok(Self {
            config: Arc::new(config),
            certificates,
        })
    }
}

fn crypto(policy: &TlsPolicy) -> CryptoProvider {
    let mut crypto = rustls::crypto::ring::default_provider();
    if let Some(chosen) = &policy.cipher_suites {
        // Those of TLS 1.3 are not chosen, as in Go.
        crypto.cipher_suites.retain(|suite| {
            let name = suite.suite().as_str().unwrap_or_default();
            suite.tls13().is_some() || chosen.iter().any(|choice| choice == name)
        });
    }
    if !policy.curves.is_empty() {
        crypto
            .kx_groups
            .retain(|group| policy.curves.contains(&u16::from(group.name())));
    }
    crypto
}

#[cfg(test)]
mod tests;
