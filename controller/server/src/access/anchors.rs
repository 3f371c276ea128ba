//! CAs of client certificates and of proxies: from files and from the cluster (AUTH-2).

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::RwLock;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::prelude::FromDer;

use super::{AccessError, caller::Caller, headers::Names, review};
use crate::settings::RequestHeader;
use outrigger_kubernetes::{api::Api, certificate::pem_fault, error::ApiError};

const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

pub(super) type Verifier = Arc<dyn ClientCertVerifier>;

/// Where CAs come from.
pub(super) struct Sources {
    pub(super) client_ca_file: Option<PathBuf>,
    pub(super) request_header: RequestHeader,
    /// Reads CAs that no file has from the API server; absent: no read.
    pub(super) lookup: Option<Api>,
}

/// The trusted certificates, and their sources.
pub(super) struct Anchors {
    sources: Sources,
    current: RwLock<Arc<Authorities>>,
}

/// CAs, ready to verify.
#[derive(Default)]
pub(super) struct Authorities {
    clients: Option<Verifier>,
    proxies: Option<Proxies>,
}

/// The CAs could not be read again.
#[derive(Debug, thiserror::Error)]
pub(super) enum RereadError {
    /// The API server is not there, or not itself: another try may help.
    #[error("{0}")]
    Away(ApiError),
    /// The cluster refuses, or has CAs that cannot be used.
    #[error(transparent)]
    Useless(#[from] AccessError),
}

struct Proxies {
    verifier: Verifier,
    /// Common names; empty: any.
    allowed: Vec<String>,
    headers: Names,
}

impl Anchors {
    /// Reads the files; the cluster is asked by [`Self::reread`].
    pub(super) fn new(sources: Sources) -> Result<Self, AccessError> {
        let authorities = sources.read(None)?;
        Ok(Self {
            sources,
            current: RwLock::new(Arc::new(authorities)),
        })
    }

    pub(super) fn current(&self) -> Arc<Authorities> {
        Arc::clone(&self.current.read())
    }

    /// Reads everything again; after an error all is as it was.
    pub(super) async fn reread(&self) -> Result<(), RereadError> {
        let data = match &self.sources.lookup {
            Some(api) if self.sources.incomplete() => {
                match api.get::<ConfigMap>(CONFIG_MAP).await {
                    Ok(map) => map.data,
                    // A cluster without aggregation has none.
                    Err(error) if error.is_not_found() => None,
                    Err(error) if review::passes(&error) => return Err(RereadError::Away(error)),
                    Err(error) => return Err(AccessError::Lookup(with_hint(&error)).into()),
                }
            }
            _ => None,
        };
        let authorities = self.sources.read(data.as_ref())?;
        *self.current.write() = Arc::new(authorities);
        Ok(())
    }
}

/// A right that is missing is usually granted by a Role that every cluster has.
fn with_hint(error: &ApiError) -> String {
    let Some(subject) = error.subject() else {
        return error.to_string();
    };
    format!(
        "{error}; usually fixed by: kubectl create rolebinding -n kube-system ROLEBINDING_NAME \
         --role=extension-apiserver-authentication-reader {subject}"
    )
}

impl Sources {
    fn incomplete(&self) -> bool {
        self.client_ca_file.is_none() || self.request_header.client_ca_file.is_none()
    }

    fn read(&self, data: Option<&BTreeMap<String, String>>) -> Result<Authorities, AccessError> {
        let value = |key: &str| data.and_then(|data| data.get(key));
        let clients = match &self.client_ca_file {
            Some(path) => Some(file("--client-ca-file", path)?),
            None => value("client-ca-file")
                .map(|pem| from_cluster(pem))
                .transpose()?,
        };
        let proxies = match &self.request_header.client_ca_file {
            Some(path) => Some(Proxies {
                verifier: file("--requestheader-client-ca-file", path)?,
                allowed: self.request_header.allowed_names.clone(),
                headers: Names {
                    user: self.request_header.username_headers.clone(),
                    uid: self.request_header.uid_headers.clone(),
                    groups: self.request_header.group_headers.clone(),
                    extra_prefixes: self.request_header.extra_header_prefixes.clone(),
                },
            }),
            None => match value("requestheader-client-ca-file") {
                Some(pem) => Some(proxies(pem, &value)?),
                None => None,
            },
        };
        Ok(Authorities { clients, proxies })
    }
}

fn proxies<'a>(
    pem: &str,
    value: &impl Fn(&str) -> Option<&'a String>,
) -> Result<Proxies, AccessError> {
    let list = |key: &str| -> Result<Vec<String>, AccessError> {
        let text = value(key).map_or("", |text| text.as_str());
        if text.is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_str(text).map_err(|error| AccessError::Lookup(format!("{key}: {error}")))
    };
    Ok(Proxies {
        verifier: from_cluster(pem)?,
        allowed: list("requestheader-allowed-names")?,
        headers: Names {
            user: list("requestheader-username-headers")?,
            uid: list("requestheader-uid-headers")?,
            groups: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        },
    })
}

pub(super) fn file(flag: &'static str, path: &PathBuf) -> Result<Verifier, AccessError> {
    let refuse = |reason: String| AccessError::File {
        flag,
        path: path.clone(),
        reason,
    };
    let pem = fs::read(path).map_err(|error| refuse(error.to_string()))?;
    verifier(&pem).map_err(refuse)
}

fn from_cluster(pem: &str) -> Result<Verifier, AccessError> {
    verifier(pem.as_bytes()).map_err(AccessError::Lookup)
}

fn verifier(pem: &[u8]) -> Result<Verifier, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("no PEM: {}", pem_fault(&error)))?;
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(certificates).0 == 0 {
        return Err("there is no CA in it".into());
    }
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto).build();
    match verifier {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(error.to_string()),
    }
}

impl Authorities {
    /// The user that a proxy speaks for; none if the headers name none.
    pub(super) fn proxied(
        &self,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, String> {
        let Some(proxies) = &self.proxies else {
            return Ok(None);
        };
        let subject = verified(&proxies.verifier, chain)?;
        if !proxies.allowed.is_empty() && !proxies.allowed.contains(&subject.name) {
            return Err(format!(
                "x509: subject with cn={} is not in the allowed list",
                subject.name
            ));
        }
        Ok(proxies.headers.caller(headers))
    }

    /// The user of the certificate: the common name, in the groups that are its organisations.
    pub(super) fn client(
        &self,
        chain: &[CertificateDer<'static>],
    ) -> Result<Option<Caller>, String> {
        let Some(verifier) = &self.clients else {
            return Ok(None);
        };
        let subject = verified(verifier, chain)?;
        Ok((!subject.name.is_empty()).then_some(subject))
    }
}

pub(super) fn verified(
    verifier: &Verifier,
    chain: &[CertificateDer<'static>],
) -> Result<Caller, String> {
    let (own, others) = chain.split_first().ok_or("no certificate")?;
    let verdict = verifier.verify_client_cert(own, others, UnixTime::now());
    verdict.map_err(|error| format!("verifying the client's certificate: {error}"))?;
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(own)
        .map_err(|error| format!("reading the client's certificate: {error}"))?;
    let subject = certificate.subject();
    let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        part.as_str().unwrap_or_default().to_owned()
    };
    Ok(Caller {
        // Of several Go takes the last.
        name: subject
            .iter_common_name()
            .last()
            .map(text)
            .unwrap_or_default(),
        groups: subject.iter_organization().map(text).collect(),
        ..Caller::default()
    })
}
