//! The TLS flags: upstream's names for what Go offers, mapped to what is offered here.

use std::{fmt, path::PathBuf, str::FromStr};

use super::values::{Int32s, Strings};
use outrigger_server::settings::{Certificate, SniCertificate, TlsPolicy, TlsVersion};

/// Suites of TLS 1.3. Go does not let them be chosen: they are always on.
const TLS13_SUITES: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// Suites of TLS 1.2 that are offered.
const TLS12_SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Names of Go without the hash, which it keeps for old configurations.
const LEGACY_NAMES: [&str; 2] = [
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
];

/// Suites that Go offers and we do not.
const REFUSED_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// secp256r1, secp384r1 and X25519, by their numbers in TLS.
const CURVES: [u16; 3] = [23, 24, 29];

const NONE_LEFT: &str = "; none that exists is left, so that the flag is not followed";

/// The values of the three flags.
pub(super) struct TlsFlags<'a> {
    /// `""` or `"webhook-"`.
    pub(super) prefix: &'a str,
    pub(super) min_version: &'a str,
    pub(super) cipher_suites: &'a Strings,
    pub(super) curves: &'a Int32s,
}

impl TlsFlags<'_> {
    pub(super) fn policy(&self, errors: &mut Vec<String>, warnings: &mut Vec<String>) -> TlsPolicy {
        TlsPolicy {
            min_version: self.min_version(errors, warnings),
            cipher_suites: self.cipher_suites(errors, warnings),
            curves: self.curves(errors, warnings),
        }
    }

    fn min_version(&self, errors: &mut Vec<String>, warnings: &mut Vec<String>) -> TlsVersion {
        let Self {
            prefix,
            min_version,
            ..
        } = self;
        match *min_version {
            "" | "VersionTLS12" => {}
            "VersionTLS13" => return TlsVersion::Tls13,
            "VersionTLS10" | "VersionTLS11" => warnings.push(format!(
                "--{prefix}tls-min-version={min_version} is read as VersionTLS12: older versions \
                 of TLS are broken and not spoken"
            )),
            other => errors.push(format!(
                "--{prefix}tls-min-version: unknown tls version {other:?}; it must be \
                 VersionTLS12 or VersionTLS13"
            )),
        }
        TlsVersion::Tls12
    }

    fn cipher_suites(
        &self,
        errors: &mut Vec<String>,
        warnings: &mut Vec<String>,
    ) -> Option<Vec<String>> {
        let prefix = self.prefix;
        if self.cipher_suites.0.is_empty() {
            return None;
        }
        let mut chosen = Vec::new();
        let mut refused = Vec::new();
        for name in self.cipher_suites.0.iter().map(|name| name.trim()) {
            if TLS12_SUITES.contains(&name) {
                chosen.push(name.to_owned());
            } else if LEGACY_NAMES.contains(&name) {
                chosen.push(format!("{name}_SHA256"));
            } else if REFUSED_SUITES.contains(&name) {
                refused.push(name);
            } else if !TLS13_SUITES.contains(&name) {
                errors.push(format!(
                    "--{prefix}tls-cipher-suites: Cipher suite {name} not supported or doesn't \
                     exist"
                ));
            }
        }
        if refused.is_empty() {
            return Some(chosen);
        }
        let consequence = if chosen.is_empty() { NONE_LEFT } else { "" };
        warnings.push(format!(
            "--{prefix}tls-cipher-suites: {} cannot be offered: without forward secrecy or \
             authenticated encryption they are weak{consequence}",
            refused.join(", ")
        ));
        (!chosen.is_empty()).then_some(chosen)
    }

    fn curves(&self, errors: &mut Vec<String>, warnings: &mut Vec<String>) -> Vec<u16> {
        let prefix = self.prefix;
        let mut chosen = Vec::new();
        let mut refused = Vec::new();
        for number in &self.curves.0 {
            match u16::try_from(*number) {
                Ok(curve) if CURVES.contains(&curve) => chosen.push(curve),
                Ok(curve) => refused.push(curve.to_string()),
                Err(_) => errors.push(format!(
                    "--{prefix}tls-curve-preferences: {number} is no curve of TLS"
                )),
            }
        }
        if !refused.is_empty() {
            let consequence = if chosen.is_empty() { NONE_LEFT } else { "" };
            warnings.push(format!(
                "--{prefix}tls-curve-preferences: {} cannot be offered, only 23, 24 and \
                 29{consequence}",
                refused.join(", ")
            ));
        }
        chosen
    }
}

/// Where the certificate is to come from.
pub(super) fn certificate(
    prefix: &str,
    certificate: &str,
    key: &str,
    directory: &str,
    errors: &mut Vec<String>,
) -> Certificate {
    match (certificate.is_empty(), key.is_empty()) {
        (false, false) => Certificate::Files {
            certificate: certificate.into(),
            key: key.into(),
        },
        (true, true) if directory.is_empty() => Certificate::SelfSigned,
        (true, true) => Certificate::Kept {
            certificate: PathBuf::from(directory).join("cloud-controller-manager.crt"),
            key: PathBuf::from(directory).join("cloud-controller-manager.key"),
        },
        (false, true) => {
            errors.push(format!(
                "--{prefix}tls-cert-file needs --{prefix}tls-private-key-file beside it"
            ));
            Certificate::SelfSigned
        }
        (true, false) => {
            errors.push(format!(
                "--{prefix}tls-private-key-file needs --{prefix}tls-cert-file beside it"
            ));
            Certificate::SelfSigned
        }
    }
}

/// `CERT,KEY[:DOMAINS]`, several joined by semicolons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SniPairs(pub(super) Vec<SniCertificate>);

impl FromStr for SniPairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(';')
            .filter(|pair| !pair.is_empty())
            .map(sni_pair)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn sni_pair(text: &str) -> Result<SniCertificate, String> {
    let (files, domains) = match text.split_once(':') {
        Some((_, domains)) if domains.trim().is_empty() => {
            return Err("empty names list is not allowed".into());
        }
        Some((files, domains)) => (
            files,
            domains
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
        ),
        None => (text, Vec::new()),
    };
    match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
        [certificate, key] if !certificate.is_empty() && !key.is_empty() => Ok(SniCertificate {
            certificate: certificate.into(),
            key: key.into(),
            domains,
        }),
        _ => Err("expected comma separated certificate and key file paths".into()),
    }
}

impl fmt::Display for SniPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, pair) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            let (certificate, key) = (pair.certificate.display(), pair.key.display());
            write!(f, "{separator}{certificate},{key}")?;
            if !pair.domains.is_empty() {
                write!(f, ":{}", pair.domains.join(","))?;
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests;
