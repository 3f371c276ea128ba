//! CAs of client certificates and of proxies, from files and from the cluster (AUTH-2), and who a certificate names.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};

use http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::RwLock;
use percent_encoding::percent_decode_str;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use x509_parser::prelude::FromDer;

use super::{AccessError, Caller, review};
use crate::{server::Peer, settings::RequestHeader};
use outrigger_kubernetes::{api::Api, certificate::pem_fault, error::ApiError};

const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// Grants the right to read it.
const GRANT: &str = "kubectl create rolebinding -n kube-system ROLEBINDING_NAME \
                     --role=extension-apiserver-authentication-reader";

/// CAs are read again after so long; upstream watches those of the cluster, which a rotation of CAs, where old and new
/// overlap for days, does not need.
const REREAD: Duration = Duration::from_mins(1);

/// The same, as long as those of the cluster were never read.
const RETRY: Duration = Duration::from_secs(5);

/// How often a failure to reach the API server is logged: once a minute.
const REMIND: u32 = 12;

type Verifier = Arc<dyn ClientCertVerifier>;

/// Where CAs come from.
pub(super) struct Sources {
    pub(super) client_ca_file: Option<PathBuf>,
    pub(super) request_header: RequestHeader,
    /// Reads CAs that no file has from the API server; absent: no read.
    pub(super) lookup: Option<Api>,
    /// `--authentication-tolerate-lookup-failure`.
    pub(super) tolerates_failure: bool,
}

/// How far the CAs of the cluster are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaState {
    /// Not read yet.
    Pending,
    /// They could not be read, and requests are answered without them.
    Missing,
    /// They were read, or the flags name them all.
    Loaded,
}

/// The trusted certificates, and their sources.
pub(super) struct Anchors {
    sources: Sources,
    current: RwLock<Arc<Authorities>>,
    state: watch::Sender<CaState>,
}

/// CAs, ready to verify.
#[derive(Default)]
pub(super) struct Authorities {
    clients: Option<Verifier>,
    proxies: Option<Proxies>,
}

/// The CAs could not be read again.
#[derive(Debug, thiserror::Error)]
enum RereadError {
    /// The API server is not there, or not itself: another try may help.
    #[error("{0}")]
    Away(ApiError),
    /// The cluster refuses, or has CAs that cannot be used.
    #[error(transparent)]
    Useless(#[from] AccessError),
}

struct Proxies {
    verifier: Verifier,
    settings: RequestHeader,
}

impl Anchors {
    /// Reads the files; the cluster is asked by [`Self::look_up`].
    pub(super) fn new(sources: Sources) -> Result<Self, AccessError> {
        let authorities = sources.read(None)?;
        Ok(Self {
            sources,
            current: RwLock::new(Arc::new(authorities)),
            state: watch::Sender::new(CaState::Pending),
        })
    }

    pub(super) fn current(&self) -> Arc<Authorities> {
        Arc::clone(&self.current.read())
    }

    /// True if the CAs of the cluster were not read yet.
    pub(super) fn is_pending(&self) -> bool {
        *self.state.borrow() == CaState::Pending
    }

    /// Reads the CAs from the cluster for the first time; from then on requests are decided about.
    /// Waits for an API server that is not there yet, unless a failure is tolerated.
    ///
    /// # Errors
    /// CAs that cannot be read from the cluster, unless `--authentication-tolerate-lookup-failure`.
    pub(super) async fn look_up(&self) -> Result<(), AccessError> {
        let mut tries = 0_u32;
        let state = loop {
            match self.reread().await {
                Ok(()) => break CaState::Loaded,
                Err(error) if self.sources.tolerates_failure => {
                    warn!(%error, "Error looking up in-cluster authentication configuration");
                    warn!(
                        "Continuing without authentication configuration. This may treat all \
                         requests as anonymous."
                    );
                    break CaState::Missing;
                }
                Err(RereadError::Useless(error)) => return Err(error),
                Err(RereadError::Away(error)) => {
                    if tries.is_multiple_of(REMIND) {
                        warn!(
                            %error,
                            "CAs of clients cannot be read; trying again until the API server answers (check \
                             --authentication-kubeconfig)"
                        );
                    }
                    tries += 1;
                }
            }
            sleep(RETRY).await;
        };
        self.state.send_replace(state);
        Ok(())
    }

    /// Reads the CAs again, from the first time on until `stop`. Runs beside the server.
    pub(super) async fn keep_fresh(&self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            let mut state = self.state.subscribe();
            // The sender lives in self.
            let _ = state.wait_for(|now| *now != CaState::Pending).await;
            loop {
                let loaded = *self.state.borrow() == CaState::Loaded;
                sleep(if loaded { REREAD } else { RETRY }).await;
                match self.reread().await {
                    Ok(()) => {
                        self.state.send_replace(CaState::Loaded);
                    }
                    Err(error) if loaded => {
                        warn!(%error, "CAs of clients cannot be read again and stay as they are");
                    }
                    // Said once, when it was tolerated.
                    Err(_) => {}
                }
            }
        })
        .await;
    }

    /// Reads everything again; after an error all is as it was.
    async fn reread(&self) -> Result<(), RereadError> {
        let data = match &self.sources.lookup {
            Some(api) if self.sources.incomplete() => {
                match api.get::<ConfigMap>(CONFIG_MAP).await {
                    Ok(map) => map.data,
                    // A cluster without aggregation has none.
                    Err(error) if error.is_not_found() => None,
                    Err(error) if review::passes(&error) => return Err(RereadError::Away(error)),
                    Err(error) => {
                        return Err(AccessError::Lookup(review::with_hint(&error, GRANT)).into());
                    }
                }
            }
            _ => None,
        };
        let authorities = self.sources.read(data.as_ref())?;
        *self.current.write() = Arc::new(authorities);
        Ok(())
    }
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
                settings: self.request_header.clone(),
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
        settings: RequestHeader {
            client_ca_file: None,
            allowed_names: list("requestheader-allowed-names")?,
            username_headers: list("requestheader-username-headers")?,
            group_headers: list("requestheader-group-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
        },
    })
}

fn file(flag: &'static str, path: &PathBuf) -> Result<Verifier, AccessError> {
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
        let allowed = &proxies.settings.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&subject.name) {
            return Err(format!(
                "x509: subject with cn={} is not in the allowed list",
                subject.name
            ));
        }
        Ok(proxies.caller(headers))
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

fn verified(verifier: &Verifier, chain: &[CertificateDer<'static>]) -> Result<Caller, String> {
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
        // Go takes the last one of several.
        name: subject
            .iter_common_name()
            .last()
            .map(text)
            .unwrap_or_default(),
        groups: subject.iter_organization().map(text).collect(),
        ..Caller::default()
    })
}

impl Proxies {
    /// The user that a proxy speaks for in `headers` (AUTH-1); `None` if they name none.
    fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let first = |names: &[String]| {
            let mut values = names.iter().flat_map(|name| values(headers, name));
            values.find(|value| !value.is_empty())
        };
        let groups = self
            .settings
            .group_headers
            .iter()
            .flat_map(|name| values(headers, name));
        Some(Caller {
            name: first(&self.settings.username_headers)?,
            uid: first(&self.settings.uid_headers).unwrap_or_default(),
            groups: groups.collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in headers {
            let prefixes = self.settings.extra_header_prefixes.iter();
            // Names of headers are lower-case here; a key's odd characters are escaped in them.
            let mut keys = prefixes.filter_map(|prefix| {
                let key = name.as_str().strip_prefix(&prefix.to_ascii_lowercase())?;
                Some(percent_decode_str(key).decode_utf8_lossy().into_owned())
            });
            if let (Some(key), Ok(value)) = (keys.next(), value.to_str()) {
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.map(ToOwned::to_owned).collect()
}

/// The CAs of a flag's file, for a server that only their clients may use.
pub struct ClientCa {
    flag: &'static str,
    path: PathBuf,
    verifier: RwLock<Verifier>,
}

impl ClientCa {
    /// Reads the file.
    pub fn read(flag: &'static str, path: PathBuf) -> Result<Self, AccessError> {
        let verifier = RwLock::new(file(flag, &path)?);
        Ok(Self {
            flag,
            path,
            verifier,
        })
    }

    /// Ok if a CA of the file has signed the certificate of `peer`.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn check(&self, peer: &Peer) -> Result<(), String> {
        if peer.certificates.is_empty() {
            return Err(format!("a client certificate is required: {}", self.flag));
        }
        let verifier = self.verifier.read().clone();
        verified(&verifier, &peer.certificates).map(drop)
    }

    /// Follows the file until `stop`; one that cannot be read leaves the former CAs in use.
    pub async fn keep_fresh(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(REREAD)).await.is_some() {
            match file(self.flag, &self.path) {
                Ok(verifier) => *self.verifier.write() = verifier,
                Err(error) => warn!(%error, "CAs of clients stay the former"),
            }
        }
    }
}
