use std::{fs, net::Ipv4Addr, path::Path};

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::*;
use crate::settings::{Certificate, SniCertificate};
use outrigger_kubernetes::certificate::subject_names;

fn serving(certificate: Certificate) -> Serving {
    Serving {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        certificate,
        sni: Vec::new(),
        tls: TlsPolicy::default(),
        http2: true,
        http2_max_streams: None,
        permit_port_sharing: false,
        permit_address_sharing: false,
    }
}

fn certificate(tls: &Tls) -> CertificateDer<'static> {
    tls.certificates.choose(None).unwrap().cert[0].clone()
}

fn write(directory: &Path, host: [u8; 4]) {
    let pem = made::self_signed(host.into(), Timestamp::now()).unwrap();
    fs::write(directory.join("tls.crt"), pem.certificate).unwrap();
    fs::write(directory.join("tls.key"), pem.key).unwrap();
}

#[test]
fn self_signed_names_localhost_and_a_specific_address() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let pem = made::self_signed([10, 1, 2, 3].into(), now).unwrap();
    let key = files::in_memory(&pem, &crypto(&TlsPolicy::default())).unwrap();
    let der = key.cert[0].clone();
    assert_eq!(subject_names(&der), ["localhost", "127.0.0.1", "10.1.2.3"]);
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert_eq!(parsed.subject().to_string(), "CN=localhost@1800000000");
    let alternatives = parsed.subject_alternative_name().unwrap().unwrap();
    assert_eq!(alternatives.value.general_names.len(), 3);
}

#[test]
fn a_kept_certificate_is_made_once() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let kept = Certificate::Kept {
        certificate: directory.path().join("new/a.crt"),
        key: directory.path().join("new/a.key"),
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
fn half_a_kept_pair_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name| directory.path().join(name);
    let kept = Certificate::Kept {
        certificate: at("a.crt"),
        key: at("a.key"),
    };
    for half in ["a.crt", "a.key"] {
        let before = Tls::new(&serving(kept.clone())).unwrap();
        fs::remove_file(at(half)).unwrap();
        // A crash in the middle of a write.
        fs::write(at("a.key.new"), "-----BEGIN").unwrap();
        let made = Tls::new(&serving(kept.clone())).unwrap();
        assert_ne!(certificate(&made), certificate(&before));
        let again = Tls::new(&serving(kept.clone())).unwrap();
        assert_eq!(certificate(&again), certificate(&made));
    }
    let mut left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["a.crt", "a.crt.unpaired", "a.key", "a.key.unpaired"]);
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

#[test]
fn a_shared_certificate_is_there_once_it_is_set() {
    let tls = Tls::new(&serving(Certificate::Shared)).unwrap();
    assert!(tls.certificates.choose(None).is_none());
    let now = Timestamp::now();
    let [first, second] = [1, 2].map(|n| made::self_signed([10, 0, 0, n].into(), now).unwrap());
    tls.certificates.set(&first).unwrap();
    let before = certificate(&tls);
    tls.certificates.refresh();
    assert_eq!(certificate(&tls), before);
    let mixed = made::Pem {
        certificate: second.certificate.clone(),
        key: first.key,
    };
    assert!(tls.certificates.set(&mixed).is_err());
    assert_eq!(certificate(&tls), before);
    tls.certificates.set(&second).unwrap();
    assert_ne!(certificate(&tls), before);
}

#[test]
fn a_name_chooses_the_first_that_fits() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), [10, 0, 0, 1]);
    let sni = |domains: &[&str]| SniCertificate {
        certificate: directory.path().join("tls.crt"),
        key: directory.path().join("tls.key"),
        domains: domains.iter().map(ToString::to_string).collect(),
    };
    let mut serving = serving(Certificate::SelfSigned);
    serving.sni = vec![sni(&["*.example.org", "one.test"])];
    let tls = Tls::new(&serving).unwrap();
    let choose = |name| tls.certificates.choose(Some(name)).unwrap().cert[0].clone();
    let default = certificate(&tls);
    assert_ne!(choose("a.example.org"), default);
    assert_ne!(choose("ONE.test"), default);
    assert_eq!(choose("a.b.example.org"), default);
    assert_eq!(choose("example.org"), default);
    serving.sni = vec![sni(&[])];
    let tls = Tls::new(&serving).unwrap();
    assert_ne!(
        tls.certificates.choose(Some("localhost")).unwrap().cert[0],
        certificate(&tls)
    );
}

#[test]
fn only_chosen_suites_and_curves_are_offered() {
    let policy = TlsPolicy {
        cipher_suites: Some(vec!["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384".into()]),
        curves: vec![29],
        ..TlsPolicy::default()
    };
    let crypto = crypto(&policy);
    let tls12: Vec<_> = crypto
        .cipher_suites
        .iter()
        .filter(|suite| suite.tls13().is_none())
        .map(|suite| suite.suite().as_str().unwrap())
        .collect();
    assert_eq!(tls12, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
    assert_eq!(crypto.cipher_suites.len(), 4);
    assert_eq!(crypto.kx_groups.len(), 1);
}
