//! The TLS flags of both servers.

use crate::server::settings::{Certificate, GivenPath, TlsVersion};

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

/// The certificate and its key in files; absent: no flag names them.
pub(super) fn certificate(
    prefix: &str,
    files: (&GivenPath, &GivenPath),
) -> Result<Option<Certificate>, String> {
    match files {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Certificate::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        })),
        _ => Err(format!(
            "--{prefix}tls-cert-file and --{prefix}tls-private-key-file need each other"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key() {
        let (file, none) = (Some("a".into()), None);
        for files in [(&file, &none), (&none, &file)] {
            let error = certificate("webhook-", files).unwrap_err();
            assert_eq!(
                error,
                "--webhook-tls-cert-file and --webhook-tls-private-key-file need each other"
            );
        }
        assert_eq!(certificate("", (&none, &none)), Ok(None));
    }
}
