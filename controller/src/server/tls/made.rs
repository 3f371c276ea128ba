//! Certificates for a server that was given none (CLI-52).

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};

/// A certificate and its key, both as PEM.
pub(super) struct Pem {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A self-signed certificate for a server at `address`. No client verifies it, so that its end is far away.
pub(super) fn self_signed(address: IpAddr) -> Result<Pem, rcgen::Error> {
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
pub(super) fn keep(
    address: IpAddr,
    certificate: &Path,
    key: &Path,
) -> Result<io::Result<()>, rcgen::Error> {
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
