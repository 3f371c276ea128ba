//! For which names a certificate is.

use rustls::sign::CertifiedKey;
use x509_parser::{extensions::GeneralName, prelude::FromDer};

/// The DNS names in the certificate itself, for `--tls-sni-cert-key` without domains.
pub(super) fn of(key: &CertifiedKey) -> Vec<String> {
    let Some(first) = key.cert.first() else {
        return Vec::new();
    };
    let Ok((_, certificate)) = x509_parser::certificate::X509Certificate::from_der(first) else {
        return Vec::new();
    };
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = &alternatives.value.general_names;
    let names = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    names.collect()
}

/// Whether `pattern`, a name or `*.` and a name, stands for `name`. The star is one label.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    let (Some(parent), Some((_, rest))) = (pattern.strip_prefix("*."), name.split_once('.')) else {
        return false;
    };
    parent.eq_ignore_ascii_case(rest)
}
