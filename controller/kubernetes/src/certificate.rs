//! The validity of X.509 certificates, which explains why the API server may not accept one.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kube::config::AuthInfo;
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};
use x509_parser::time::ASN1Time;

/// Explains why the API server may have answered 401 to the credentials in `auth`: its own answer is
/// no more than "Unauthorized".
pub(super) fn explain(auth: &AuthInfo, now: Timestamp) -> String {
    match not_after(auth) {
        Some(end) if end < now => {
            format!("the client certificate expired on {end}: renew it")
        }
        Some(end) => format!(
            "the client certificate is valid until {end}: check that the API server trusts its CA"
        ),
        None => "check that its credentials have not expired or been revoked".to_owned(),
    }
}

/// Until when the client certificate is valid, if there is one that can be read.
fn not_after(auth: &AuthInfo) -> Option<Timestamp> {
    let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => STANDARD.decode(data).ok()?,
        // Of one that is rotated, the file has the certificate of now.
        (None, Some(path)) => std::fs::read(path).ok()?,
        (None, None) => return None,
    };
    let der = CertificateDer::from_pem_slice(&pem).ok()?;
    validity(&[der]).map(|(_, end)| end)
}

/// When the first certificate of a chain begins and ends.
pub fn validity(chain: &[CertificateDer<'_>]) -> Option<(Timestamp, Timestamp)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(chain.first()?).ok()?;
    let validity = certificate.validity();
    let time = |at: ASN1Time| Timestamp::from_second(at.timestamp()).ok();
    Some((time(validity.not_before)?, time(validity.not_after)?))
}

/// The fault of a PEM, without a line of it: a key whose line ends were lost is one line, and the error quotes it.
pub fn pem_fault(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => {
            "a section has no END line; are the line ends lost?"
        }
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is damaged",
        pem::Error::Base64Decode(_) => "the base64 of a section is damaged",
        pem::Error::NoItemsFound => "it has no section of that kind",
        pem::Error::SectionTooLarge => "a section is too large",
        _ => "it cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_certificate_is_named_with_its_date() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.not_after = rcgen::date_time_ymd(2026, 2, 3);
        let pem = params.self_signed(&key).unwrap().pem();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.crt");
        std::fs::write(&path, &pem).unwrap();
        let inline = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&pem)),
            ..AuthInfo::default()
        };
        let file = AuthInfo {
            client_certificate: Some(path.display().to_string()),
            ..AuthInfo::default()
        };
        let [before, after] = ["2026-02-02T00:00:00Z", "2026-02-04T00:00:00Z"];
        let at = |text: &str| text.parse().unwrap();
        for auth in [inline, file] {
            let sentence = explain(&auth, at(after));
            assert!(
                sentence.contains("expired on 2026-02-03T00:00:00Z"),
                "{sentence}"
            );
            let sentence = explain(&auth, at(before));
            assert!(sentence.contains("valid until 2026-02-03"), "{sentence}");
        }
        let sentence = explain(&AuthInfo::default(), at(before));
        assert!(
            sentence.contains("check that its credentials"),
            "{sentence}"
        );
    }
}
