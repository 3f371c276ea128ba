//! X.509 certificates in PEM: their validity and names, and what is wrong with a file.

use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem};
use x509_parser::{extensions::GeneralName, time::ASN1Time};

/// When the first certificate of a chain begins and ends.
pub fn validity(chain: &[CertificateDer<'_>]) -> Option<(Timestamp, Timestamp)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(chain.first()?).ok()?;
    let validity = certificate.validity();
    let time = |at: ASN1Time| Timestamp::from_second(at.timestamp()).ok();
    Some((time(validity.not_before)?, time(validity.not_after)?))
}

/// DNS names and addresses of a certificate.
pub fn subject_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
        return Vec::new();
    };
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = alternatives.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    });
    names.collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let ipv4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    ipv4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
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
