//! The TLS flags of both servers: upstream's names for what Go offers, mapped to what is offered here.

use std::path::Path;

use crate::server::settings::{Certificate, TlsPolicy, TlsVersion};

use super::items;

/// Values of a minimum version of TLS; the older ones are read as 1.2.
pub(super) const VERSIONS: [&str; 5] = [
    "",
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
];

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

/// `prefix` is that of the flags, in warnings and errors: `webhook-` or nothing.
pub(super) fn policy(
    prefix: &str,
    min_version: &str,
    suites: &[String],
    curves: &[u16],
    warnings: &mut Vec<String>,
) -> Result<TlsPolicy, String> {
    let suites = items(suites);
    let (chosen, weak) = cipher_suites(&suites)
        .map_err(|name| format!("--{prefix}tls-cipher-suites: there is no suite {name}"))?;
    let (offered, others): (Vec<u16>, Vec<u16>) =
        curves.iter().partition(|curve| CURVES.contains(curve));
    let mut leave_out = |flag: &str, values: &str| {
        warnings.push(format!(
            "--{prefix}{flag}: {values} cannot be offered; if nothing is left, the flag is not followed"
        ));
    };
    if ["VersionTLS10", "VersionTLS11"].contains(&min_version) {
        leave_out("tls-min-version", min_version);
    }
    if !weak.is_empty() {
        leave_out("tls-cipher-suites", &weak.join(", "));
    }
    if !others.is_empty() {
        leave_out("tls-curve-preferences", &format!("{others:?}"));
    }
    Ok(TlsPolicy {
        min_version: match min_version {
            "VersionTLS13" => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        },
        // Suites of TLS 1.3 alone leave none of TLS 1.2.
        cipher_suites: (!chosen.is_empty() || (weak.is_empty() && !suites.is_empty()))
            .then_some(chosen),
        curves: offered,
    })
}

/// Suites of TLS 1.2 that are offered, and weak ones that are not.
///
/// # Errors
/// A name of no suite.
fn cipher_suites(names: &[String]) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut chosen, mut weak) = (Vec::new(), Vec::new());
    for name in names {
        // Go keeps names without the hash for old configurations.
        let in_full = format!("{name}_SHA256");
        if TLS12_SUITES.contains(&&**name) {
            chosen.push(name.clone());
        } else if name.ends_with("POLY1305") && TLS12_SUITES.contains(&&*in_full) {
            chosen.push(in_full);
        } else if is_weak(name) {
            weak.push(name.clone());
        } else if !TLS13_SUITES.contains(&&**name) {
            return Err(name.clone());
        }
    }
    Ok((chosen, weak))
}

/// Go has such suites of TLS 1.2, without forward secrecy or authenticated encryption, and we do not offer them.
fn is_weak(name: &str) -> bool {
    name.starts_with("TLS_RSA_WITH_")
        || (name.starts_with("TLS_ECDHE_")
            && ["_CBC_", "_RC4_"].iter().any(|part| name.contains(part)))
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
        }));
    }
    let kept = |name| Path::new(directory).join(name);
    Ok((!directory.is_empty()).then(|| Certificate::Kept {
        certificate: kept("cloud-controller-manager.crt"),
        key: kept("cloud-controller-manager.key"),
    }))
}

#[cfg(test)]
mod tests;
