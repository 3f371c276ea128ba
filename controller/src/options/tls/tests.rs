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
    let kept = Certificate::Kept {
        certificate: "/certs/cloud-controller-manager.crt".into(),
        key: "/certs/cloud-controller-manager.key".into(),
    };
    assert_eq!(certificate("", "", "/certs"), Ok(Some(kept)));
}
