use super::*;

fn policy(min_version: &str, suites: &str, curves: &[u16]) -> Result<(TlsPolicy, usize), String> {
    let mut warnings = Vec::new();
    let suites: Vec<_> = suites.split(',').map(str::to_owned).collect();
    let policy = super::policy("", min_version, &suites, curves, &mut warnings)?;
    Ok((policy, warnings.len()))
}

#[test]
fn cli_53_what_exists_is_taken_silently() {
    let suites = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305";
    let (policy, warnings) = policy("VersionTLS13", suites, &[29, 23]).unwrap();
    assert_eq!(policy.min_version, TlsVersion::Tls13);
    assert_eq!(
        policy.cipher_suites,
        Some(vec![
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into(),
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256".into(),
        ])
    );
    assert_eq!(policy.curves, [29, 23]);
    assert_eq!(warnings, 0);
}

#[test]
fn without_a_choice_all_is_offered() {
    assert_eq!(policy("", "", &[]), Ok((TlsPolicy::default(), 0)));
}

#[test]
fn values_that_cannot_be_honoured_warn() {
    let weak = "TLS_RSA_WITH_AES_128_CBC_SHA";
    let (policy, warnings) = policy("VersionTLS10", weak, &[25, 29, 4588]).unwrap();
    assert_eq!(policy.min_version, TlsVersion::Tls12);
    assert_eq!(policy.cipher_suites, None);
    assert_eq!(policy.curves, [29]);
    assert_eq!(warnings, 3);
}

#[test]
fn a_suite_that_does_not_exist_is_an_error() {
    let error = policy("", "bar", &[]).unwrap_err();
    assert_eq!(error, "--tls-cipher-suites: there is no suite bar");
}

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
    let kept = Certificate::Kept {
        certificate: "/certs/cloud-controller-manager.crt".into(),
        key: "/certs/cloud-controller-manager.key".into(),
    };
    assert_eq!(certificate("", "", "/certs"), Ok(Some(kept)));
}
