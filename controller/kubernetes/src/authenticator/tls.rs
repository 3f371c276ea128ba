//! The client certificate of a TLS handshake: that of the moment.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use crate::certificate::pem_fault;

/// Client certificate that the next TLS handshake presents.
#[derive(Default)]
pub(super) struct Presented(RwLock<Option<Arc<CertifiedKey>>>);

impl Presented {
    pub(super) fn set(&self, certificate: Option<Arc<CertifiedKey>>) {
        *self.0.write() = certificate;
    }

    /// The certificate of the last [`Self::set`].
    pub(super) fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presented")
    }
}

impl ResolvesClientCert for Presented {
    /// Whatever CAs the server names, as Go's client.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current()
    }

    fn has_certs(&self) -> bool {
        self.0.read().is_some()
    }
}

/// A certificate with its chain and its key, both PEM.
///
/// The certificate is not looked into, for it is the API server that judges it: an X.509 v1
/// certificate, as `openssl x509 -req` makes it, is fine for Kubernetes.
///
/// # Errors
/// The fault of the certificate or the key, as the end of a sentence.
pub(super) fn pair(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the client certificate is no PEM: {}", pem_fault(&error)))?;
    if chain.is_empty() {
        return Err("there is no certificate in the client certificate's PEM".into());
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the client key cannot be read: {}", pem_fault(&error)))?;
    let key = ring::default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| format!("the client key cannot be used: {error}"))?;
    // Not by rustls, which refuses to look into a certificate that is not of version 3.
    let of_certificate = x509_parser::parse_x509_certificate(&chain[0])
        .map_err(|error| format!("the client certificate cannot be read: {error}"))?
        .1
        .subject_pki
        .raw;
    if key
        .public_key()
        .is_some_and(|of_key| *of_key != *of_certificate)
    {
        return Err("the client key is not that of the client certificate".into());
    }
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}
