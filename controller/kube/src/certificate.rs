//! X.509 certificates: their end, the fault of a PEM, and a server that accepts any client's.
//!
//! The login looks when its certificate ends; the HTTPS server of the binary asks clients for certificates with
//! [`AnyClient`] and decides later whose they are. No error quotes a line of a key.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime, pem},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// When the first certificate of a chain ends.
pub(crate) fn end(chain: &[CertificateDer<'_>]) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(chain.first()?).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
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

/// Has a server ask for client certificates and take them as they are: whose they are is found out with each request, by
/// the CAs of that moment. A client without one is welcome.
#[derive(Debug)]
pub struct AnyClient(pub Arc<CryptoProvider>);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    // That the client has the key of its certificate can only be checked here.

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
