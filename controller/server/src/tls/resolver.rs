//! Which certificate a client gets; those from files follow their files.

use std::{fmt, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use rustls::{
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tracing::{info, warn};

use super::{
    TlsError, files,
    files::{CertificateFiles, Found},
    made::{self, Pem},
};
use crate::settings::{Certificate, Serving};
use outrigger_kubernetes::certificate::subject_names;

/// The certificates of one server.
pub struct Certificates {
    default: Entry,
    by_name: Vec<Entry>,
    crypto: Arc<CryptoProvider>,
}

#[derive(Default)]
struct Entry {
    /// Absent before it is set.
    key: RwLock<Option<Arc<CertifiedKey>>>,
    /// Absent for a certificate in memory.
    files: Option<Mutex<CertificateFiles>>,
    /// Empty: those in the certificate.
    domains: Vec<String>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl Certificates {
    pub(super) fn load(serving: &Serving, crypto: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let default = match &serving.certificate {
            Certificate::SelfSigned => Entry::made(serving.address, &crypto)?,
            Certificate::Shared => Entry::default(),
            Certificate::Kept { certificate, key } => {
                let files = CertificateFiles::new(certificate, key);
                let on_disk = files.found()?;
                if let Found::Half(half) = on_disk {
                    let aside =
                        made::move_aside(half).map_err(|error| files.refuse(&error.to_string()))?;
                    warn!(
                        "{} is there without its certificate or key, as a crash leaves it: it is \
                         {} now, and both are made again",
                        half.display(),
                        aside.display()
                    );
                }
                if !matches!(on_disk, Found::Both) {
                    let pem = made::self_signed(serving.address, Timestamp::now())?;
                    made::keep(&pem, certificate, key)
                        .map_err(|error| files.refuse(&error.to_string()))?;
                }
                Entry::read(files, Vec::new(), &crypto)?
            }
            Certificate::Files { certificate, key } => {
                Entry::read(CertificateFiles::new(certificate, key), Vec::new(), &crypto)?
            }
        };
        let by_name = serving.sni.iter().map(|pair| {
            let files = CertificateFiles::new(&pair.certificate, &pair.key);
            Entry::read(files, pair.domains.clone(), &crypto)
        });
        Ok(Self {
            default,
            by_name: by_name.collect::<Result<_, _>>()?,
            crypto,
        })
    }

    /// Reads the files again. A file that cannot be read, or not yet, leaves the certificate as it
    /// was. Blocks on the disk.
    pub fn refresh(&self) {
        for entry in std::iter::once(&self.default).chain(&self.by_name) {
            entry.refresh(&self.crypto);
        }
    }

    /// From now on `pem` is the certificate for clients that ask for no other.
    pub fn set(&self, pem: &Pem) -> Result<(), TlsError> {
        let key = files::in_memory(pem, &self.crypto)?;
        *self.default.key.write() = Some(key);
        Ok(())
    }

    pub(super) fn choose(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let named = name.and_then(|name| self.by_name.iter().find(|entry| entry.fits(name)));
        named.unwrap_or(&self.default).key.read().clone()
    }
}

impl Entry {
    fn made(address: IpAddr, crypto: &CryptoProvider) -> Result<Self, TlsError> {
        let pem = made::self_signed(address, Timestamp::now())?;
        Ok(Self {
            key: RwLock::new(Some(files::in_memory(&pem, crypto)?)),
            ..Self::default()
        })
    }

    fn read(
        mut files: CertificateFiles,
        domains: Vec<String>,
        crypto: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let key = files.read(crypto)?;
        let key = key.ok_or_else(|| files.refuse("the files are empty"))?;
        Ok(Self {
            key: RwLock::new(Some(Arc::new(key))),
            files: Some(Mutex::new(files)),
            domains,
        })
    }

    fn refresh(&self, crypto: &CryptoProvider) {
        let Some(files) = &self.files else { return };
        let mut files = files.lock();
        match files.read(crypto) {
            Ok(Some(key)) => {
                *self.key.write() = Some(Arc::new(key));
                let file = files.certificate.display();
                info!(%file, "certificate of the server is new");
            }
            Ok(None) => {}
            Err(error) => warn!(%error, "certificate of the server stays the former"),
        }
    }

    fn fits(&self, name: &str) -> bool {
        let own = match &*self.domains {
            // The domains in the certificate itself, for `--tls-sni-cert-key` without domains.
            [] => {
                let key = self.key.read();
                &key.as_ref()
                    .and_then(|key| key.cert.first().map(subject_names))
                    .unwrap_or_default()
            }
            domains => domains,
        };
        own.iter().any(|pattern| fits(pattern, name))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name())
    }
}

/// True if `pattern`, a name or `*.` and a name, stands for `name`. The star is one label.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    let (Some(parent), Some((_, rest))) = (pattern.strip_prefix("*."), name.split_once('.')) else {
        return false;
    };
    parent.eq_ignore_ascii_case(rest)
}
