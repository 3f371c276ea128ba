//! A certificate and its key out of two files, read again when they change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use super::{TlsError, made::Pem};
use outrigger_kubernetes::certificate::pem_fault;

/// Which files of a pair there are.
pub(super) enum Found<'a> {
    Both,
    /// This one alone.
    Half(&'a Path),
    None,
}

/// Two files, and what they held when they were last read.
pub(super) struct CertificateFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    last_bytes: Vec<u8>,
}

impl CertificateFiles {
    pub(super) fn new(certificate: &Path, key: &Path) -> Self {
        Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            last_bytes: Vec::new(),
        }
    }

    /// The files' content if it differs from the last one; the content decides, since mounted
    /// Secrets change by a symbolic link. Between the two writes of a rotation the pair does not
    /// fit: that is an error, and the next read tries again.
    pub(super) fn read(
        &mut self,
        crypto: &CryptoProvider,
    ) -> Result<Option<CertifiedKey>, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| self.refuse(&error.to_string()));
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let both = [certificate.as_slice(), key.as_slice()].concat();
        if both == self.last_bytes {
            return Ok(None);
        }
        let pair = pair(&certificate, &key, crypto).map_err(|reason| self.refuse(&reason))?;
        self.last_bytes = both;
        Ok(Some(pair))
    }

    /// Which of them are there.
    pub(super) fn found(&self) -> Result<Found<'_>, TlsError> {
        let exists = |path: &Path| match fs::metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.refuse(&error.to_string())),
        };
        match (exists(&self.certificate)?, exists(&self.key)?) {
            (true, true) => Ok(Found::Both),
            (false, false) => Ok(Found::None),
            (true, false) => Ok(Found::Half(&self.certificate)),
            (false, true) => Ok(Found::Half(&self.key)),
        }
    }

    pub(super) fn refuse(&self, reason: &str) -> TlsError {
        TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// The pair as the TLS library wants it.
pub(super) fn in_memory(pem: &Pem, crypto: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    pair(pem.certificate.as_bytes(), pem.key.as_bytes(), crypto)
        .map(Arc::new)
        .map_err(|reason| TlsError::Settings(rustls::Error::General(reason)))
}

fn pair(certificate: &[u8], key: &[u8], crypto: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the certificate is no PEM: {}", pem_fault(&error)))?;
    if chain.is_empty() {
        return Err("there is no certificate in the file".into());
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key cannot be read: {}", pem_fault(&error)))?;
    CertifiedKey::from_der(chain, key, crypto).map_err(|error| error.to_string())
}
