//! The server's TLS configuration, with its certificate.

use std::{fs, net::IpAddr, sync::Arc};

use outrigger_kube::certificate::{AnyClient, pem_fault};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::server::settings::{Certificate, Serving, TlsVersion};

/// The way into TLS, by one certificate.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    chain: Vec<CertificateDer<'static>>,
}

impl Tls {
    /// Reads the certificate, or makes it. Blocks on the disk.
    ///
    /// # Errors
    /// A certificate or key that cannot be read, made or used. Between the two writes of a rotation the pair does not fit.
    pub(super) fn open(serving: &Serving) -> Result<Self, String> {
        match &serving.certificate {
            Certificate::SelfSigned => {
                let made = self_signed(serving.address).map_err(|error| error.to_string());
                let read = made.and_then(|[certificate, key]| {
                    Self::new(serving, certificate.as_bytes(), key.as_bytes())
                });
                read.map_err(|reason| format!("cannot make a self-signed certificate: {reason}"))
            }
            Certificate::Files { certificate, key } => {
                let read = |path| fs::read(path).map_err(|error| error.to_string());
                let read = read(certificate)
                    .and_then(|certificate| Self::new(serving, &certificate, &read(key)?));
                read.map_err(|reason| {
                    let (certificate, key) = (certificate.display(), key.display());
                    format!("certificate {certificate}, key {key}: {reason}")
                })
            }
        }
    }

    /// By a certificate and its key, both as PEM.
    fn new(serving: &Serving, certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("the certificate is no PEM: {}", pem_fault(&error)))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("the key cannot be read: {}", pem_fault(&error)))?;
        let versions: &[_] = match serving.min_tls {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let crypto = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(versions)
            .and_then(|config| {
                let config = config.with_client_cert_verifier(Arc::new(AnyClient(crypto)));
                config.with_single_cert(chain.clone(), key)
            });
        let mut config = config.map_err(|error| error.to_string())?;
        // Any client could fill their store, with its own certificates in them; probes begin a new session each time.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Self {
            acceptor: Arc::new(config).into(),
            chain,
        })
    }

    /// Takes over what the files say now; if they cannot be used, or not yet, all stays as it was.
    pub(super) fn replace(&mut self, read: Result<Self, String>) {
        match read {
            Ok(read) => {
                if self.chain != read.chain {
                    info!("certificate of the server is new");
                }
                *self = read;
            }
            Err(error) => warn!(%error, "certificate of the server stays the former"),
        }
    }
}

/// A self-signed certificate for a server at `address` that was given none (CLI-52), and its key, both as PEM. No client
/// verifies it, so that its end is far away.
fn self_signed(address: IpAddr) -> Result<[String; 2], rcgen::Error> {
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
    Ok([params.self_signed(&key)?.pem(), key.serialize_pem()])
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, path::Path};

    use super::*;
    use crate::server::fixture::serving;

    fn certificate(tls: &Tls) -> CertificateDer<'static> {
        tls.chain[0].clone()
    }

    fn write(directory: &Path, host: [u8; 4]) {
        let [certificate, key] = self_signed(host.into()).unwrap();
        fs::write(directory.join("tls.crt"), certificate).unwrap();
        fs::write(directory.join("tls.key"), key).unwrap();
    }

    #[tokio::test]
    async fn self_signed_names_localhost_and_a_specific_address() {
        let mut serving = serving(Certificate::SelfSigned);
        serving.address = Ipv4Addr::new(10, 1, 2, 3).into();
        let certificate = certificate(&Tls::open(&serving).unwrap());
        let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        let names = names.value.general_names.iter().map(ToString::to_string);
        let expected = [
            "DNSName(localhost)",
            "IPAddress(7f:00:00:01)",
            "IPAddress(0a:01:02:03)",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    /// The library's error quotes the line, as bytes.
    #[test]
    fn a_key_that_lost_its_line_ends_is_not_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), [10, 0, 0, 1]);
        let key = directory.path().join("tls.key");
        fs::write(
            &key,
            "-----BEGIN PRIVATE KEY-----hush-----END PRIVATE KEY-----",
        )
        .unwrap();
        let given = Certificate::Files {
            certificate: directory.path().join("tls.crt"),
            key,
        };
        let error = Tls::open(&serving(given)).err().unwrap();
        assert!(error.contains("the key cannot be read"), "{error}");
        assert!(!error.contains("104, 117, 115, 104"), "{error}");
    }

    #[test]
    fn files_are_followed_and_a_half_written_pair_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name| directory.path().join(name);
        let given = Certificate::Files {
            certificate: at("tls.crt"),
            key: at("tls.key"),
        };
        let serving = serving(given);
        assert!(Tls::open(&serving).is_err());
        write(directory.path(), [10, 0, 0, 1]);
        let mut tls = Tls::open(&serving).unwrap();
        let before = certificate(&tls);

        let new = tempfile::tempdir().unwrap();
        write(new.path(), [10, 0, 0, 2]);
        fs::copy(new.path().join("tls.crt"), at("tls.crt")).unwrap();
        tls.replace(Tls::open(&serving));
        assert_eq!(certificate(&tls), before, "the key does not fit yet");
        fs::copy(new.path().join("tls.key"), at("tls.key")).unwrap();
        tls.replace(Tls::open(&serving));
        assert_ne!(certificate(&tls), before);
    }
}
