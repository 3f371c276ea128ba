//! The API server's part: CAs in the `ConfigMap`, reviews of tokens and of rights.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use futures::FutureExt;
use http_body_util::BodyExt;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use super::client::Identity;
use crate::kube::{
    api::Api,
    scripted::{self, ScriptedAnswer},
};

pub(super) struct Cluster {
    pub(super) clients: Authority,
    pub(super) proxies: Authority,
    counts: Arc<(AtomicUsize, AtomicUsize)>,
    answer: Arc<Answering>,
}

#[derive(Default)]
struct Answering {
    holds: AtomicBool,
    fails: AtomicBool,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            clients: Authority::new("clients"),
            proxies: Authority::new("proxies"),
            counts: Arc::default(),
            answer: Arc::default(),
        }
    }

    /// Reviews of tokens and of rights so far.
    pub(super) fn reviews(&self) -> (usize, usize) {
        (self.counts.0.load(Relaxed), self.counts.1.load(Relaxed))
    }

    /// From now on no review is answered.
    pub(super) fn hold_reviews(&self) {
        self.answer.holds.store(true, Relaxed);
    }

    /// From now on each review is refused.
    pub(super) fn refuse_reviews(&self) {
        self.answer.fails.store(true, Relaxed);
    }

    pub(super) fn api(&self) -> Api {
        let map = json!({ "metadata": {}, "data": {
            "client-ca-file": self.clients.pem,
            "requestheader-client-ca-file": self.proxies.pem,
            "requestheader-allowed-names": r#"["front-proxy"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        }});
        let counts = Arc::clone(&self.counts);
        let answer = Arc::clone(&self.answer);
        Api::new(scripted::client(move |request| {
            let (map, counts, answer) = (map.clone(), Arc::clone(&counts), Arc::clone(&answer));
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let answered = async |answered| {
                    if answer.holds.load(Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    if answer.fails.load(Relaxed) {
                        return scripted::refusal(403, "Forbidden");
                    }
                    answered
                };
                match path.rsplit('/').next().unwrap() {
                    "extension-apiserver-authentication" => scripted::json(200, &map),
                    "tokenreviews" => {
                        counts.0.fetch_add(1, Relaxed);
                        answered(token(&serde_json::from_slice(&body).unwrap())).await
                    }
                    "subjectaccessreviews" => {
                        counts.1.fetch_add(1, Relaxed);
                        answered(rights(&serde_json::from_slice(&body).unwrap())).await
                    }
                    _ => scripted::refusal(404, "NotFound"),
                }
            }
            .boxed()
        }))
    }
}

fn token(review: &Value) -> ScriptedAnswer {
    let known = review["spec"]["token"] == "scraper";
    let user = json!({
        "username": "system:serviceaccount:mon:scraper",
        "groups": ["system:serviceaccounts", "system:authenticated"],
    });
    let status = json!({ "authenticated": known, "user": if known { user } else { json!({}) } });
    scripted::json(
        201,
        &json!({ "metadata": {}, "spec": {}, "status": status }),
    )
}

/// AUTH-7.
fn rights(review: &Value) -> ScriptedAnswer {
    let spec = &review["spec"];
    let asked = json!({ "path": "/metrics", "verb": "get" });
    let allowed = spec["nonResourceAttributes"] == asked
        && spec["user"] == "system:serviceaccount:mon:scraper";
    let status = json!({ "allowed": allowed });
    scripted::json(
        201,
        &json!({ "metadata": {}, "spec": {}, "status": status }),
    )
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub(crate) fn sign(&self, name: &str, groups: &[&str]) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::Certificate {
            chain: vec![certificate.der().clone()],
            key: key.serialize_der().try_into().unwrap(),
            headers: Vec::new(),
        }
    }
}
