//! The TLS flags: upstream's names for what Go offers, mapped to what is offered here.

use std::path::PathBuf;

use outrigger_server::settings::{Certificate, TlsPolicy, TlsVersion};

use super::Findings;
use crate::options::flag::Setting;

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

/// secp256r1, secp384r1 and X25519, by their numbers in TLS.
const CURVES: [u16; 3] = [23, 24, 29];

const NONE_LEFT: &str = "; none that exists is left, so that the flag is not followed";

pub(super) fn policy(
    version: &Setting<String>,
    suites: &Setting<Vec<String>>,
    preferences: &Setting<Vec<i32>>,
    f: &mut Findings,
) -> TlsPolicy {
    TlsPolicy {
        min_version: min_version(version, f),
        cipher_suites: cipher_suites(suites, f),
        curves: curves(preferences, f),
    }
}

fn min_version(flag: &Setting<String>, f: &mut Findings) -> TlsVersion {
    match flag.as_str() {
        "" | "VersionTLS12" => {}
        "VersionTLS13" => return TlsVersion::Tls13,
        version @ ("VersionTLS10" | "VersionTLS11") => f.warnings.push(format!(
            "{flag}={version} is read as VersionTLS12: older versions of TLS are broken and not spoken"
        )),
        other => f.errors.push(format!(
            "{flag}: unknown tls version {other:?}; it must be VersionTLS12 or VersionTLS13"
        )),
    }
    TlsVersion::Tls12
}

/// Absent: all.
fn cipher_suites(flag: &Setting<Vec<String>>, f: &mut Findings) -> Option<Vec<String>> {
    let (mut chosen, mut refused) = (Vec::new(), Vec::new());
    for name in flag.iter().map(|name| name.trim()) {
        // Go keeps names without the hash for old configurations.
        let in_full = format!("{name}_SHA256");
        if TLS12_SUITES.contains(&name) {
            chosen.push(name.to_owned());
        } else if name.ends_with("POLY1305") && TLS12_SUITES.contains(&&*in_full) {
            chosen.push(in_full);
        } else if is_weak(name) {
            refused.push(name);
        } else if !TLS13_SUITES.contains(&name) {
            f.errors.push(format!(
                "{flag}: Cipher suite {name} not supported or doesn't exist"
            ));
        }
    }
    let consequence = if chosen.is_empty() { NONE_LEFT } else { "" };
    if !refused.is_empty() {
        f.warnings.push(format!(
            "{flag}: {} cannot be offered: without forward secrecy or authenticated encryption they are \
             weak{consequence}",
            refused.join(", ")
        ));
        return (!chosen.is_empty()).then_some(chosen);
    }
    (!flag.is_empty()).then_some(chosen)
}

/// Go has such suites of TLS 1.2, and we do not offer them.
fn is_weak(name: &str) -> bool {
    name.starts_with("TLS_RSA_WITH_")
        || (name.starts_with("TLS_ECDHE_")
            && ["_CBC_", "_RC4_"].iter().any(|part| name.contains(part)))
}

/// Empty: all.
fn curves(flag: &Setting<Vec<i32>>, f: &mut Findings) -> Vec<u16> {
    let (mut chosen, mut refused) = (Vec::new(), Vec::new());
    for number in flag.iter() {
        match u16::try_from(*number) {
            Ok(curve) if CURVES.contains(&curve) => chosen.push(curve),
            Ok(curve) => refused.push(curve.to_string()),
            Err(_) => f
                .errors
                .push(format!("{flag}: {number} is no curve of TLS")),
        }
    }
    if !refused.is_empty() {
        let consequence = if chosen.is_empty() { NONE_LEFT } else { "" };
        f.warnings.push(format!(
            "{flag}: {} cannot be offered, only 23, 24 and 29{consequence}",
            refused.join(", ")
        ));
    }
    chosen
}

/// Where the certificate is to come from; absent: no flag says.
pub(super) fn certificate(
    certificate: &Setting<String>,
    key: &Setting<String>,
    directory: &str,
    f: &mut Findings,
) -> Option<Certificate> {
    match (certificate.is_empty(), key.is_empty()) {
        (false, false) => Some(Certificate::Files {
            certificate: certificate.value.clone().into(),
            key: key.value.clone().into(),
        }),
        (true, true) if directory.is_empty() => None,
        (true, true) => Some(Certificate::Kept {
            certificate: PathBuf::from(directory).join("cloud-controller-manager.crt"),
            key: PathBuf::from(directory).join("cloud-controller-manager.key"),
        }),
        (false, true) => {
            f.errors
                .push(format!("{certificate} needs {key} beside it"));
            None
        }
        (true, false) => {
            f.errors
                .push(format!("{key} needs {certificate} beside it"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
