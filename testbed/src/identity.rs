//! The certificates of a control plane, and the client identities that it signs.
//!
//! Each control plane has an authority of its own, whose key is in memory. A kubeconfig has everything inside it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{Error, Result};

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority that lives as long as its control plane.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let make = || {
            let key = KeyPair::generate()?;
            let mut params = params(name, None);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::DigitalSignature,
                KeyUsagePurpose::KeyCertSign,
            ];
            let certificate = params.self_signed(&key)?;
            Ok(Self {
                pem: certificate.pem(),
                der: certificate.der().to_vec(),
                issuer: Issuer::new(params, key),
            })
        };
        make().map_err(|source| failed(name, source))
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its key, as PEM, for kube-controller-manager to sign with.
    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A serving certificate for these DNS names and addresses.
    pub(crate) fn server(&self, name: &str, hosts: &[&str]) -> Result<Pair> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = params(name, None);
        params.subject_alt_names = CertificateParams::new(hosts)
            .map_err(|source| failed(name, source))?
            .subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, &params)
    }

    /// A client certificate: to Kubernetes the common name is the user and the
    /// organisation a group.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = params(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, &params)
    }

    fn sign(&self, subject: &str, params: &CertificateParams) -> Result<Pair> {
        let make = || {
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Pair {
                certificate: certificate.pem(),
                key: key.serialize_pem(),
            })
        };
        make().map_err(|source| failed(subject, source))
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(name: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}

fn failed(subject: &str, source: rcgen::Error) -> Error {
    Error::Certificate {
        subject: subject.to_owned(),
        source,
    }
}

/// A kubeconfig with everything inside it.
///
/// `identity` is left out towards a server that knows its callers by other means.
pub(crate) fn kubeconfig(url: &str, authority: Option<&str>, identity: Option<&Pair>) -> String {
    let authority = authority.map_or_else(String::new, |pem| {
        format!(
            "\n    certificate-authority-data: {}",
            BASE64_STANDARD.encode(pem)
        )
    });
    let user = identity.map_or_else(
        || "{}".to_owned(),
        |pair| {
            format!(
                "\n    client-certificate-data: {}\n    client-key-data: {}",
                BASE64_STANDARD.encode(&pair.certificate),
                BASE64_STANDARD.encode(&pair.key),
            )
        },
    );
    format!(
        "apiVersion: v1
kind: Config
current-context: testbed
contexts:
- name: testbed
  context: {{cluster: testbed, user: testbed}}
clusters:
- name: testbed
  cluster:
    server: {url}{authority}
users:
- name: testbed
  user: {user}
"
    )
}

/// The configuration of a client with this identity.
///
/// Without kube's own retries and read time limit: a test wants the first answer, and a
/// watch is silent for as long as it likes.
pub(crate) fn client_config(
    url: http::Uri,
    authority: &Authority,
    identity: &Pair,
) -> kube::Config {
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    config.root_cert = Some(vec![authority.der().to_vec()]);
    config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(&identity.certificate));
    config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(&identity.key).into());
    config
}
