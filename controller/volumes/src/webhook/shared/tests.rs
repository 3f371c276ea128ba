//! Replicas over one small API server.

use std::collections::BTreeMap;

use futures::{FutureExt, future::join_all};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::webhook::{Webhook, WebhookAddress};
use outrigger_kubernetes::fixture::scripted::{self, ScriptedAnswer};
use outrigger_server::{Server, fixture::serving, settings::Certificate};

const DAY: i64 = 24 * 3600;
const SECRET: &str = "/api/v1/namespaces/kube-system/secrets/cloud-controller-manager-webhook";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/cloud-controller-manager-webhook";

/// Objects by path, with versions as preconditions.
#[derive(Clone)]
struct Objects(Arc<Mutex<BTreeMap<String, Value>>>, Arc<Mutex<Refusals>>);

/// Requests that are refused, and how many there were.
#[derive(Default)]
struct Refusals {
    /// Changes of the Secret.
    writes: Option<(u16, &'static str)>,
    /// Reading the configuration.
    is_blind: bool,
    writes_refused: usize,
}

impl Objects {
    /// With the Secret of an operator, which is empty.
    fn new() -> Self {
        let objects = Self(Arc::default(), Arc::default());
        drop(objects.put(
            SECRET,
            json!({"metadata": {"name": "cloud-controller-manager-webhook"}}),
        ));
        objects
    }

    fn get(&self, path: &str) -> Value {
        self.0.lock().get(path).cloned().unwrap_or_default()
    }

    fn remove(&self, path: &str) {
        self.0.lock().remove(path);
    }

    /// Stores an object under a new version.
    fn put(&self, path: &str, mut object: Value) -> ScriptedAnswer {
        let mut all = self.0.lock();
        let before = all.get(path).map_or(0, version);
        object["metadata"]["resourceVersion"] = (before + 1).to_string().into();
        all.insert(path.to_owned(), object.clone());
        scripted::json(200, &object)
    }

    async fn answer(self, request: Request<Body>) -> ScriptedAnswer {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        // So that replicas take turns between a read and the write that follows from it.
        tokio::task::yield_now().await;
        let present = self.get(path);
        {
            let mut refusals = self.1.lock();
            let is_write = head.method != Method::GET && path.contains("/secrets");
            if let Some((code, message)) = refusals.writes.filter(|_| is_write) {
                refusals.writes_refused += 1;
                return scripted::refusal(code, message);
            }
            if refusals.is_blind && path == CONFIGURATION {
                return scripted::refusal(403, "Forbidden");
            }
        }
        match head.method {
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{path}/{name}");
                if self.get(&path).is_null() {
                    self.put(&path, body)
                } else {
                    scripted::refusal(409, "AlreadyExists")
                }
            }
            _ if present.is_null() => scripted::refusal(404, "NotFound"),
            Method::PUT if version(&body) == version(&present) => self.put(path, body),
            Method::PUT => scripted::refusal(409, "Conflict"),
            Method::PATCH => {
                let tested = json!({"metadata": {"resourceVersion": body[0]["value"]}});
                if version(&tested) != version(&present) {
                    return scripted::refusal(422, "Invalid");
                }
                let mut changed = present;
                changed["webhooks"][0]["clientConfig"]["caBundle"] = body[1]["value"].clone();
                self.put(path, changed)
            }
            _ => scripted::json(200, &present),
        }
    }
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.map_or(0, |version| version.parse().unwrap())
}

fn replica(objects: &Objects) -> Arc<SharedCertificate> {
    replica_that(objects, true)
}

fn address() -> WebhookAddress {
    WebhookAddress {
        namespace: "kube-system".into(),
        name: "cloud-controller-manager-webhook".into(),
        url: None,
    }
}

/// With or without `--register-webhooks`.
fn replica_that(objects: &Objects, creates: bool) -> Arc<SharedCertificate> {
    let objects = objects.clone();
    SharedCertificate::new(SharedParts {
        api: Api::new(scripted::client(move |request| {
            objects.clone().answer(request).boxed()
        })),
        certificates: Server::bind(&serving(Certificate::Shared))
            .unwrap()
            .certificates(),
        registration: Registration {
            webhooks: Webhook::ALL.to_vec(),
            address: address(),
            creates,
        },
    })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Passes of all replicas at once, until each went well.
async fn settle(replicas: &[Arc<SharedCertificate>], seconds: i64) {
    let now = at(seconds);
    join_all(replicas.iter().map(async |replica| {
        while let Err(error) = replica.pass(now).await {
            let lost =
                matches!(&error, PassError::Api(error) if matches!(error.code(), Some(409 | 422)));
            assert!(lost, "{error}");
        }
    }))
    .await;
}

/// The certificate that all of them serve, and the CAs that the API server trusts for it.
fn agreed(objects: &Objects, replicas: &[Arc<SharedCertificate>]) -> (Value, Value) {
    let secret = objects.get(SECRET);
    let configuration = objects.get(CONFIGURATION);
    let trusted = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
    assert_eq!(trusted, &secret["data"]["ca.crt"]);
    for replica in replicas {
        let served = replica.served.lock().as_ref().unwrap().certificate.clone();
        let stored = k8s_openapi::ByteString(served.into_bytes());
        assert_eq!(json!(stored), secret["data"]["tls.crt"]);
    }
    (secret["data"]["tls.crt"].clone(), trusted.clone())
}

#[tokio::test]
async fn replicas_that_start_at_once_serve_the_same_certificate() {
    let objects = Objects::new();
    let replicas = [(); 5].map(|()| replica(&objects));
    for replica in &replicas {
        assert!(replica.check().is_err());
    }
    settle(&replicas, 0).await;
    agreed(&objects, &replicas);
    assert_eq!(version(&objects.get(SECRET)), 2);
    for replica in &replicas {
        replica.check().unwrap();
    }
}

#[tokio::test]
async fn replicas_renew_the_certificate_once_and_write_nothing_else() {
    let objects = Objects::new();
    let replicas = [(); 3].map(|()| replica(&objects));
    settle(&replicas, 0).await;
    let (first, one_ca) = agreed(&objects, &replicas);
    settle(&replicas, 200 * DAY).await;
    assert_eq!(version(&objects.get(SECRET)), 2);

    settle(&replicas, 250 * DAY).await;
    settle(&replicas, 250 * DAY + 10).await;
    let (still, two_cas) = agreed(&objects, &replicas);
    assert_eq!(still, first);
    assert_ne!(one_ca, two_cas);
    settle(&replicas, 250 * DAY + 400).await;
    settle(&replicas, 250 * DAY + 410).await;
    let (second, trusted) = agreed(&objects, &replicas);
    assert_ne!(second, first);
    assert_eq!(trusted, two_cas);
    assert_eq!(version(&objects.get(SECRET)), 4);
    assert_eq!(version(&objects.get(CONFIGURATION)), 2);
}

#[tokio::test]
async fn a_deleted_configuration_is_made_anew_and_an_emptied_secret_filled() {
    let objects = Objects::new();
    let replicas = [(); 2].map(|()| replica(&objects));
    settle(&replicas, 0).await;
    let (first, _) = agreed(&objects, &replicas);
    objects.remove(CONFIGURATION);
    settle(&replicas, 10).await;
    assert_eq!(agreed(&objects, &replicas).0, first);
    drop(objects.put(SECRET, json!({"metadata": {"name": "emptied"}})));
    // The second replica has not seen the new Secret yet.
    settle(&replicas[..1], 20).await;
    let bundle = objects.get(SECRET)["data"]["ca.crt"].clone();
    let trusted: k8s_openapi::ByteString = serde_json::from_value(bundle.clone()).unwrap();
    let served = replicas[1].served.lock().clone().unwrap();
    let trusted = String::from_utf8(trusted.0).unwrap();
    assert!(certificate::is_usable(&served, &trusted, at(20)));
    let configuration = objects.get(CONFIGURATION);
    assert_eq!(
        configuration["webhooks"][0]["clientConfig"]["caBundle"],
        bundle
    );
    settle(&replicas, 30).await;
    assert_ne!(agreed(&objects, &replicas).0, first);
}

/// It has no right to make one, for a right to create cannot name its object.
#[tokio::test(start_paused = true)]
async fn a_secret_that_is_missing_is_named_once_and_not_made() {
    let warnings = outrigger_runtime::fixture::Warnings::listen();
    let objects = Objects::new();
    objects.remove(SECRET);
    let replica = replica(&objects);
    let running = Arc::clone(&replica).run(CancellationToken::new());
    let ended = tokio::time::timeout(Duration::from_mins(1), running).await;
    assert!(ended.is_err());
    assert!(objects.get(SECRET).is_null());
    let missing = "no Secret kube-system/cloud-controller-manager-webhook: make it, empty";
    let error = replica.check().unwrap_err();
    assert!(error.contains(missing), "{error}");
    assert_eq!(warnings.with(missing).len(), 1);
}

/// docs/rbac.md: an operator copies `ca.crt` into the configuration at each change.
#[tokio::test]
async fn a_certificate_that_is_not_seen_to_be_trusted_waits_for_the_end_of_the_one_before() {
    let warnings = outrigger_runtime::fixture::Warnings::listen();
    for is_blind in [true, false] {
        let objects = Objects::new();
        objects.1.lock().is_blind = is_blind;
        let replicas = [(); 2].map(|()| replica_that(&objects, false));
        settle(&replicas, 0).await;
        let first = objects.get(SECRET)["data"]["tls.crt"].clone();
        for seconds in [250 * DAY, 251 * DAY, 364 * DAY] {
            settle(&replicas, seconds).await;
            assert_eq!(objects.get(SECRET)["data"]["tls.crt"], first, "{seconds}");
        }
        assert!(!objects.get(SECRET)["data"]["next.crt"].is_null());
        settle(&replicas, 366 * DAY).await;
        assert_ne!(objects.get(SECRET)["data"]["tls.crt"], first);
    }
    // Once by each replica.
    assert_eq!(warnings.with("copy ca.crt of the Secret").len(), 4);
}

/// A Secret that is immutable, or a policy: not another replica that was faster.
#[tokio::test(start_paused = true)]
async fn a_secret_that_the_api_server_refuses_is_reported_and_not_written_in_a_storm() {
    let warnings = outrigger_runtime::fixture::Warnings::listen();
    for code in [409, 422] {
        let objects = Objects::new();
        objects.1.lock().writes = Some((code, "SecretsAreFrozen"));
        let replica = replica(&objects);
        let running = Arc::clone(&replica).run(CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_mins(1), running).await;
        assert!(ended.is_err());
        let tries = objects.1.lock().writes_refused;
        assert!((2..=12).contains(&tries), "{tries}");
        let error = replica.check().unwrap_err();
        assert!(error.contains("SecretsAreFrozen"), "{error}");
    }
    assert_eq!(warnings.with("SecretsAreFrozen").len(), 2);
}

/// cert-manager's cainjector writes the CA of another certificate.
#[tokio::test]
async fn another_writer_of_the_cas_is_reported() {
    let warnings = outrigger_runtime::fixture::Warnings::listen();
    let objects = Objects::new();
    let replicas = [replica(&objects)];
    for pass in 0..10 {
        settle(&replicas, 10 * pass).await;
        let mut theirs = objects.get(CONFIGURATION);
        theirs["webhooks"][0]["clientConfig"]["caBundle"] = "dGhlaXJz".into();
        drop(objects.put(CONFIGURATION, theirs));
    }
    assert_eq!(warnings.with("changed by another client").len(), 1);
}
