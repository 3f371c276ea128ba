use std::net::Ipv4Addr;

use super::*;
use crate::server::fixture::serving;

fn certificate(tls: &Tls) -> CertificateDer<'static> {
    tls.certificates.key.read().cert[0].clone()
}

fn write(directory: &Path, host: [u8; 4]) {
    let pem = self_signed(host.into()).unwrap();
    fs::write(directory.join("tls.crt"), pem.certificate).unwrap();
    fs::write(directory.join("tls.key"), pem.key).unwrap();
}

#[tokio::test]
async fn self_signed_names_localhost_and_a_specific_address() {
    let mut serving = serving(Certificate::SelfSigned);
    serving.address = Ipv4Addr::new(10, 1, 2, 3).into();
    let certificate = certificate(&Tls::new(&serving).unwrap());
    let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    let names = names.value.general_names.iter().map(ToString::to_string);
    let expected = [
        "DNSName(localhost)",
        "IPAddress(7f:00:00:01)",
        "IPAddress(0a:01:02:03)",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_kept_certificate_is_made_once() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let kept = Certificate::Files {
        certificate: directory.path().join("new/a.crt"),
        key: directory.path().join("new/a.key"),
        are_made: true,
    };
    let first = Tls::new(&serving(kept.clone())).unwrap();
    let second = Tls::new(&serving(kept.clone())).unwrap();
    assert_eq!(certificate(&first), certificate(&second));
    let key = directory.path().join("new/a.key");
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn half_a_kept_pair_is_refused_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name| directory.path().join(name);
    let kept = Certificate::Files {
        certificate: at("a.crt"),
        key: at("a.key"),
        are_made: true,
    };
    Tls::new(&serving(kept.clone())).unwrap();
    fs::remove_file(at("a.crt")).unwrap();
    let error = Tls::new(&serving(kept)).err().unwrap().to_string();
    assert!(error.contains("No such file"), "{error}");
    assert!(at("a.key").exists());
}

/// The library's error quotes the line, as bytes.
#[test]
fn a_key_that_lost_its_line_ends_is_not_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), [10, 0, 0, 1]);
    let key = directory.path().join("tls.key");
    fs::write(
        &key,
        "-----BEGIN PRIVATE KEY-----hush-----END PRIVATE KEY-----",
    )
    .unwrap();
    let given = Certificate::Files {
        certificate: directory.path().join("tls.crt"),
        key,
        are_made: false,
    };
    let error = Tls::new(&serving(given)).err().unwrap().to_string();
    assert!(error.contains("the key cannot be read"), "{error}");
    assert!(!error.contains("104, 117, 115, 104"), "{error}");
}

#[test]
fn files_are_followed_and_a_half_written_pair_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name| directory.path().join(name);
    let given = Certificate::Files {
        certificate: at("tls.crt"),
        key: at("tls.key"),
        are_made: false,
    };
    assert!(Tls::new(&serving(given.clone())).is_err());
    write(directory.path(), [10, 0, 0, 1]);
    let tls = Tls::new(&serving(given)).unwrap();
    let before = certificate(&tls);
    tls.certificates.refresh();
    assert_eq!(certificate(&tls), before);

    let new = tempfile::tempdir().unwrap();
    write(new.path(), [10, 0, 0, 2]);
    fs::copy(new.path().join("tls.crt"), at("tls.crt")).unwrap();
    tls.certificates.refresh();
    assert_eq!(certificate(&tls), before, "the key does not fit yet");
    fs::copy(new.path().join("tls.key"), at("tls.key")).unwrap();
    tls.certificates.refresh();
    assert_ne!(certificate(&tls), before);
}
