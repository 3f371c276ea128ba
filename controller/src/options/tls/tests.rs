use super::*;

fn policy(min_version: &str, suites: &str, curves: &str) -> (TlsPolicy, Vec<String>, Vec<String>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let policy = TlsFlags {
        prefix: "",
        min_version,
        cipher_suites: &suites.parse().unwrap(),
        curves: &curves.parse().unwrap(),
    }
    .policy(&mut errors, &mut warnings);
    (policy, errors, warnings)
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
fn sni_pairs_are_read_as_upstream_does() {
    let pairs: SniPairs = "a.crt,a.key;b.crt, b.key:*.foo.com,foo.com"
        .parse()
        .unwrap();
    assert_eq!(
        pairs.to_string(),
        "[a.crt,a.key;b.crt,b.key:*.foo.com,foo.com]"
    );
    assert!("a".parse::<SniPairs>().is_err());
    assert!("a,b:".parse::<SniPairs>().is_err());
    assert!("a,b,c".parse::<SniPairs>().is_err());
}

#[test]
fn a_certificate_needs_its_key() {
    let mut errors = Vec::new();
    certificate("", "a.crt", "", "", &mut errors);
    certificate("", "", "a.key", "", &mut errors);
    assert_eq!(
        errors,
        [
            "--tls-cert-file needs --tls-private-key-file beside it",
            "--tls-private-key-file needs --tls-cert-file beside it",
        ]
    );
    assert_eq!(
        certificate("", "", "", "/certs", &mut errors),
        Certificate::Kept {
            certificate: "/certs/cloud-controller-manager.crt".into(),
            key: "/certs/cloud-controller-manager.key".into(),
        }
    );
}
