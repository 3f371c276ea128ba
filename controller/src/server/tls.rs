//! The server's TLS configuration, and its certificate, which follows its files.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use outrigger_kube::certificate::{AnyClient, pem_fault};
use parking_lot::RwLock;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use tracing::{info, warn};

use crate::server::settings::{Certificate, Serving, TlsVersion};

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

/// The settings of a server, and the certificate in them, which changes with its files.
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) certificates: Arc<Certificates>,
}

impl Tls {
    /// Reads or makes the certificate.
    pub(super) fn new(serving: &Serving) -> Result<Self, TlsError> {
        let crypto = Arc::new(ring::default_provider());
        let certificates = Arc::new(Certificates::load(serving, Arc::clone(&crypto))?);
        let versions: &[_] = match serving.min_tls {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::new(AnyClient(crypto)))
            .with_cert_resolver(Arc::clone(&certificates) as _);
        // Any client could fill their store, with its own certificates in them; probes begin a new session each time.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Self {
            config: Arc::new(config),
            certificates,
        })
    }
}

/// The certificate of one server.
pub(super) struct Certificates {
    key: RwLock<Arc<CertifiedKey>>,
    /// Absent: the certificate was made at start, and is kept in memory.
    files: Option<PairFiles>,
    crypto: Arc<CryptoProvider>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.key.read()))
    }
}

impl Certificates {
    fn load(serving: &Serving, crypto: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let (key, files) = match &serving.certificate {
            Certificate::SelfSigned => {
                let made = self_signed(serving.address)?;
                let key = pair(made.certificate.as_bytes(), made.key.as_bytes(), &crypto);
                let refuse = |reason| TlsError::Settings(rustls::Error::General(reason));
                (key.map_err(refuse)?, None)
            }
            Certificate::Files {
                certificate,
                key,
                are_made,
            } => {
                let files = PairFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                };
                if *are_made && !certificate.exists() && !key.exists() {
                    let kept = keep(serving.address, certificate, key)?;
                    kept.map_err(|error| files.refuse(error.to_string()))?;
                }
                (files.read(&crypto)?, Some(files))
            }
        };
        Ok(Self {
            key: RwLock::new(Arc::new(key)),
            files,
            crypto,
        })
    }

    /// Reads the files again. A file that cannot be read, or not yet, leaves the certificate as it
    /// was. Blocks on the disk.
    pub(super) fn refresh(&self) {
        let Some(files) = &self.files else {
            return;
        };
        match files.read(&self.crypto) {
            Ok(read) => {
                let mut current = self.key.write();
                if current.cert != read.cert {
                    info!("certificate of the server is new");
                }
                *current = Arc::new(read);
            }
            Err(error) => warn!(%error, "certificate of the server stays the former"),
        }
    }
}

/// Certificate and key on the disk.
struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl PairFiles {
    /// Between the two writes of a rotation the pair does not fit: that is an error, and the next read tries again.
    fn read(&self, crypto: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let read = |path| fs::read(path).map_err(|error| self.refuse(error.to_string()));
        let read = pair(&read(&self.certificate)?, &read(&self.key)?, crypto);
        read.map_err(|reason| self.refuse(reason))
    }

    fn refuse(&self, reason: String) -> TlsError {
        TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason,
        }
    }
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

/// A certificate and its key, both as PEM.
struct Pem {
    certificate: String,
    key: String,
}

/// A self-signed certificate for a server at `address` that was given none (CLI-52). No client verifies it, so that its end is far away.
fn self_signed(address: IpAddr) -> Result<Pem, rcgen::Error> {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if !address.is_unspecified() && address.to_string() != hosts[1] {
        hosts.push(address.to_string());
    }
    let mut params = CertificateParams::new(hosts)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "localhost");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    Ok(Pem {
        certificate: params.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

/// Makes a pair and keeps it for the next start; the key for the owner's eyes only.
fn keep(address: IpAddr, certificate: &Path, key: &Path) -> Result<io::Result<()>, rcgen::Error> {
    let pem = self_signed(address)?;
    let write = |path: &Path, text: &str, mode| {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(path);
        file?.write_all(text.as_bytes())
    };
    Ok(certificate
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| write(key, &pem.key, 0o600))
        .and_then(|()| write(certificate, &pem.certificate, 0o644)))
}

#[cfg(test)]
mod tests;
