//! The TLS flags of both servers.

use std::path::Path;

use crate::server::settings::{Certificate, TlsVersion};

/// Values of a minimum version of TLS; the older ones are read as 1.2.
pub(super) const VERSIONS: [&str; 5] = [
    "",
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
];

/// The version that one of [`VERSIONS`] names.
pub(super) fn min_version(name: &str) -> TlsVersion {
    match name {
        "VersionTLS13" => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    }
}

/// Where the certificate is to come from; absent: no flag says. `files` are those of the certificate and of its key.
pub(super) fn certificate(
    prefix: &str,
    files: [&String; 2],
    directory: &str,
) -> Result<Option<Certificate>, String> {
    let [certificate, key] = files;
    if certificate.is_empty() != key.is_empty() {
        return Err(format!(
            "--{prefix}tls-cert-file and --{prefix}tls-private-key-file need each other"
        ));
    }
    if !certificate.is_empty() {
        return Ok(Some(Certificate::Files {
            certificate: certificate.into(),
            key: key.into(),
            are_made: false,
        }));
    }
    let kept = |name| Path::new(directory).join(name);
    Ok((!directory.is_empty()).then(|| Certificate::Files {
        certificate: kept("cloud-controller-manager.crt"),
        key: kept("cloud-controller-manager.key"),
        are_made: true,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key() {
        let certificate = |certificate: &str, key: &str, directory: &str| {
            super::certificate(
                "webhook-",
                [&certificate.to_owned(), &key.to_owned()],
                directory,
            )
        };
        for (file, key) in [("a.crt", ""), ("", "a.key")] {
            let error = certificate(file, key, "").unwrap_err();
            assert_eq!(
                error,
                "--webhook-tls-cert-file and --webhook-tls-private-key-file need each other"
            );
        }
        let kept = Certificate::Files {
            certificate: "/certs/cloud-controller-manager.crt".into(),
            key: "/certs/cloud-controller-manager.key".into(),
            are_made: true,
        };
        assert_eq!(certificate("", "", "/certs"), Ok(Some(kept)));
    }
}
