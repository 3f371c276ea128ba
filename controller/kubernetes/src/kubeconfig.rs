//! A kubeconfig that may change, such as that of a Secret: its user and the CAs of its cluster are read again.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use kube::config::AuthInfo;
use parking_lot::RwLock;
use rustls::{
    DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::client::read_kubeconfig;

/// The file of a kubeconfig. Clones share the CAs of the moment.
#[derive(Clone, Debug)]
pub(crate) struct Kubeconfig {
    path: PathBuf,
    /// Absent where it names no CA.
    authorities: Option<Arc<Authorities>>,
}

impl Kubeconfig {
    /// The file at `path`, in which these CAs were found, in DER.
    ///
    /// # Errors
    /// A CA that cannot be used, as a sentence.
    pub(crate) fn new(path: &Path, authorities: Option<&[Vec<u8>]>) -> Result<Self, String> {
        let authorities = authorities.map(Authorities::new).transpose()?;
        Ok(Self {
            path: path.to_owned(),
            authorities: authorities.map(Arc::new),
        })
    }

    /// Verifies certificates of the API server by the CAs that were read last.
    pub(crate) fn verifier(&self) -> Option<Arc<dyn ServerCertVerifier>> {
        let authorities = self.authorities.clone()?;
        Some(authorities)
    }

    /// The user as it is now; the CAs count from now on. Blocks on the disk.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read or used, as a sentence.
    pub(crate) fn read(&self) -> Result<AuthInfo, String> {
        let config = read_kubeconfig(&self.path).map_err(|error| error.to_string())?;
        if let (Some(current), Some(authorities)) = (&self.authorities, &config.root_cert) {
            let replaced = current.replace(authorities);
            replaced.map_err(|reason| format!("{}: {reason}", self.path.display()))?;
        }
        Ok(config.auth_info)
    }
}

/// The CAs of the moment, in DER, and their verifier.
struct Authorities(RwLock<(Vec<Vec<u8>>, Arc<WebPkiServerVerifier>)>);

impl Authorities {
    fn new(ders: &[Vec<u8>]) -> Result<Self, String> {
        Ok(Self(RwLock::new((ders.to_owned(), verifier(ders)?))))
    }

    fn replace(&self, ders: &[Vec<u8>]) -> Result<(), String> {
        if self.0.read().0 == ders {
            return Ok(());
        }
        *self.0.write() = (ders.to_owned(), verifier(ders)?);
        tracing::info!("the CAs of the API server are new");
        Ok(())
    }

    fn current(&self) -> Arc<WebPkiServerVerifier> {
        Arc::clone(&self.0.read().1)
    }
}

fn verifier(ders: &[Vec<u8>]) -> Result<Arc<WebPkiServerVerifier>, String> {
    let refuse = |error: &dyn fmt::Display| format!("a CA cannot be used: {error}");
    let mut roots = RootCertStore::empty();
    for der in ders {
        let added = roots.add(CertificateDer::from(der.clone()));
        added.map_err(|error| refuse(&error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|error| refuse(&error))
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities")
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let current = self.current();
        current.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let current = self.current();
        current.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let current = self.current();
        current.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}
