use super::*;
use crate::options::flag_type::FlagType;

fn setting<T: FlagType>(field: &'static str, text: &str) -> Setting<T> {
    let value = T::read(text).unwrap();
    Setting { field, value }
}

fn certificate(files: &str, key: &str, directory: &str) -> (Option<Certificate>, Vec<String>) {
    let mut findings = Findings::default();
    let (files, key) = (
        setting("tls_cert_file", files),
        setting("tls_private_key_file", key),
    );
    let certificate = super::certificate(&files, &key, directory, &mut findings);
    (certificate, findings.errors)
}

fn policy(min_version: &str, suites: &str, curves: &str) -> (TlsPolicy, Vec<String>, Vec<String>) {
    let mut findings = Findings::default();
    let policy = super::policy(
        &setting("tls_min_version", min_version),
        &setting("tls_cipher_suites", suites),
        &setting("tls_curve_preferences", curves),
        &mut findings,
    );
    (policy, findings.errors, findings.warnings)
}

#[test]
fn cli_53_what_exists_is_taken_silently() {
    let (policy, errors, warnings) = policy(
        "VersionTLS13",
        "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "29,23",
    );
    assert_eq!(policy.min_version, TlsVersion::Tls13);
    assert_eq!(
        policy.cipher_suites,
        Some(vec![
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into(),
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256".into(),
        ])
    );
    assert_eq!(policy.curves, [29, 23]);
    assert_eq!((errors.len(), warnings.len()), (0, 0));
}

#[test]
fn values_that_cannot_be_honoured_warn() {
    let (policy, errors, warnings) =
        policy("VersionTLS10", "TLS_RSA_WITH_AES_128_CBC_SHA", "25,29,4588");
    assert_eq!(policy.min_version, TlsVersion::Tls12);
    assert_eq!(policy.cipher_suites, None);
    assert_eq!(policy.curves, [29]);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}

#[test]
fn values_that_do_not_exist_are_errors() {
    let (_, errors, _) = policy("foo", "bar", "-1");
    assert_eq!(
        errors,
        [
            "--tls-min-version: unknown tls version \"foo\"; it must be VersionTLS12 or \
             VersionTLS13",
            "--tls-cipher-suites: Cipher suite bar not supported or doesn't exist",
            "--tls-curve-preferences: -1 is no curve of TLS",
        ]
    );
}

#[test]
fn a_certificate_needs_its_key() {
    assert_eq!(
        certificate("a.crt", "", "").1,
        ["--tls-cert-file needs --tls-private-key-file beside it"]
    );
    assert_eq!(
        certificate("", "a.key", "").1,
        ["--tls-private-key-file needs --tls-cert-file beside it"]
    );
    let kept = Certificate::Kept {
        certificate: "/certs/cloud-controller-manager.crt".into(),
        key: "/certs/cloud-controller-manager.key".into(),
    };
    assert_eq!(certificate("", "", "/certs"), (Some(kept), Vec::new()));
}
