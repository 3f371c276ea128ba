//! X.509 certificates in PEM: their validity, and the fault of a file.

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem};
use x509_parser::time::ASN1Time;

/// When the first certificate of a chain begins and ends.
pub(crate) fn validity(chain: &[CertificateDer<'_>]) -> Option<(Timestamp, Timestamp)> {
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
