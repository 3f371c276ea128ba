//! Client certificates are asked for and taken as they are: whose they are is found out with each
//! request, by the CAs of that moment (AUTH-1). A client without one is welcome.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// Longest certificate of a client with its chain, in bytes. It is kept as long as the connection.
const LONGEST: usize = 16 * 1024;

/// The certificates of a client are longer than that.
#[derive(Debug, thiserror::Error)]
#[error("the client's certificates have more than {LONGEST} bytes")]
struct TooLong;

pub(super) struct AnyClient {
    crypto: Arc<CryptoProvider>,
}

impl AnyClient {
    pub(super) fn new(crypto: Arc<CryptoProvider>) -> Self {
        Self { crypto }
    }
}

impl fmt::Debug for AnyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClient")
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = certificate.len() + chain.iter().map(|one| one.len()).sum::<usize>();
        if bytes > LONGEST {
            return Err(Error::InvalidCertificate(CertificateError::Other(
                OtherError(Arc::new(TooLong)),
            )));
        }
        Ok(ClientCertVerified::assertion())
    }

    // That the client has the key of its certificate can only be checked here.

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
