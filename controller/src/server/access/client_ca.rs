//! CAs of client certificates, from a file or from the cluster (AUTH-2), and who a certificate names.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use outrigger_kube::{api::Api, certificate::pem_fault};
use parking_lot::RwLock;
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::time::sleep;
use tracing::warn;
use x509_parser::x509::AttributeTypeAndValue;

use super::{Caller, reviews};
use crate::server::listener::Peer;

const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// CAs are read again after so long; upstream watches those of the cluster, which a rotation of CAs, where old and new
/// overlap for days, does not need.
const REREAD: Duration = Duration::from_mins(1);

type Verifier = Arc<dyn ClientCertVerifier>;

/// Where CAs come from.
enum Origin {
    /// The file of a flag.
    File(&'static str, PathBuf),
    /// The cluster; absent: there are none.
    Cluster(Option<Api>),
}

/// The CAs of client certificates.
pub struct ClientCa {
    origin: Origin,
    verifier: RwLock<Option<Verifier>>,
}

impl ClientCa {
    /// Reads the file of `flag`.
    pub fn read(flag: &'static str, path: PathBuf) -> Result<Self, String> {
        let origin = Origin::File(flag, path);
        let verifier = RwLock::new(origin.read()?);
        Ok(Self { origin, verifier })
    }

    /// Nothing is read yet.
    pub(super) fn of_cluster(api: Option<Api>) -> Self {
        Self {
            origin: Origin::Cluster(api),
            verifier: RwLock::default(),
        }
    }

    /// Ok if a CA has signed the certificate of `peer`.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn check(&self, peer: &Peer) -> Result<(), String> {
        if peer.certificates.is_empty() {
            return Err("a client certificate is required".to_owned());
        }
        self.caller(&peer.certificates).map(drop)
    }

    /// Reads the CAs again and again; those that cannot be read leave the former in use.
    pub async fn keep_fresh(&self) {
        loop {
            sleep(REREAD).await;
            self.reread().await;
        }
    }

    /// Reads the CAs again; after an error all is as it was.
    pub(super) async fn reread(&self) {
        let read = match &self.origin {
            Origin::Cluster(Some(api)) => look_up(api).await,
            origin => origin.read(),
        };
        match read {
            Ok(read) => *self.verifier.write() = read,
            Err(error) => {
                warn!(%error, "CAs of clients cannot be read; they stay as they are, or unknown, for a minute");
            }
        }
    }

    /// The user of the certificate, which is the common name, in the groups that are its organisations; none without a
    /// certificate or without CAs.
    ///
    /// # Errors
    /// Why the certificate is not good.
    pub(super) fn caller(
        &self,
        chain: &[CertificateDer<'static>],
    ) -> Result<Option<Caller>, String> {
        let verifier = self.verifier.read().clone();
        let (Some(verifier), Some((own, others))) = (verifier, chain.split_first()) else {
            return Ok(None);
        };
        let verdict = verifier.verify_client_cert(own, others, UnixTime::now());
        verdict.map_err(|error| format!("verifying the client's certificate: {error}"))?;
        let (_, certificate) = x509_parser::parse_x509_certificate(own)
            .map_err(|error| format!("reading the client's certificate: {error}"))?;
        let subject = certificate.subject();
        let text = |part: &AttributeTypeAndValue<'_>| part.as_str().unwrap_or_default().to_owned();
        // Go takes the last name of several.
        let name = subject.iter_common_name().last().map(text);
        Ok(name.filter(|name| !name.is_empty()).map(|name| Caller {
            name,
            groups: subject.iter_organization().map(text).collect(),
            ..Caller::default()
        }))
    }
}

impl Origin {
    fn read(&self) -> Result<Option<Verifier>, String> {
        let Self::File(flag, path) = self else {
            return Ok(None);
        };
        let pem = fs::read(path).map_err(|error| error.to_string());
        let verifier = pem.and_then(|pem| verifier(&pem));
        verifier
            .map(Some)
            .map_err(|reason| format!("{flag} {}: {reason}", path.display()))
    }
}

/// The CAs of the cluster; one without aggregation has no such object.
async fn look_up(api: &Api) -> Result<Option<Verifier>, String> {
    let data = match api.get::<ConfigMap>(CONFIG_MAP).await {
        Ok(map) => map.data.unwrap_or_default(),
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => {
            let grant = "kubectl create rolebinding -n kube-system ROLEBINDING_NAME \
                         --role=extension-apiserver-authentication-reader";
            return Err(unusable(&reviews::with_hint(&error, grant)));
        }
    };
    let pem = data.get("client-ca-file");
    let verifier = pem.map(|pem| verifier(pem.as_bytes()).map_err(|reason| unusable(&reason)));
    verifier.transpose()
}

fn unusable(reason: &str) -> String {
    format!("unable to load configmap based client-ca-file: {reason}")
}

fn verifier(pem: &[u8]) -> Result<Verifier, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("no PEM: {}", pem_fault(&error)))?;
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(certificates).0 == 0 {
        return Err("there is no CA in it".into());
    }
    let crypto = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto).build();
    verifier.map_err(|error| error.to_string())
}
