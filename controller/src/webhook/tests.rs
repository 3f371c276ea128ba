//! Over real sockets and TLS.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, header};
use http_body_util::Full;
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::server::{
    ClientCa, Server, ServingMetrics,
    fixture::{Authority, Identity, Reply, connect, send, serving},
    settings::Certificate,
};
use outrigger_kube::patch::Operation;
use outrigger_runtime::fixture::Warnings;

const PATH: &str = "/persistentvolume-labels?timeout=1s";

/// Answers by the name of the object, and remembers it.
fn by_name(reviews: Arc<Mutex<Vec<String>>>) -> Review {
    Box::new(move |object| {
        let object: Value = serde_json::from_str(object.get()).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        reviews.lock().push(name.clone());
        async move {
            match &*name {
                "foreign" => Ok(AdmissionVerdict::Admit(Vec::new())),
                "wrong" => Ok(AdmissionVerdict::Refuse("zone a, not b".to_owned())),
                "away" => Err("the provider is away".to_owned()),
                "late" => std::future::pending().await,
                _ => Ok(AdmissionVerdict::Admit(vec![Operation::Add {
                    path: "/metadata/labels".to_owned(),
                    value: json!({"zone": "a"}),
                }])),
            }
        }
        .boxed()
    })
}

struct Running {
    address: SocketAddr,
    registry: Registry,
    webhook: Arc<WebhookServer>,
    reviews: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

/// Without a reviewer yet.
fn begin(client_ca: Option<PathBuf>) -> Running {
    let server = Server::bind(&serving(Certificate::SelfSigned)).unwrap();
    let address = server.address();
    let mut registry = Registry::default();
    let metrics = WebhookMetrics::register(&mut registry);
    let client_ca = client_ca.map(|path| ClientCa::read("--flag", path).unwrap());
    let webhook = Arc::new(WebhookServer::new(client_ca, metrics));
    let running = Arc::clone(&webhook);
    let mut tasks = JoinSet::new();
    tasks.spawn(running.run(server, ServingMetrics::default(), CancellationToken::new()));
    Running {
        address,
        registry,
        webhook,
        reviews: Arc::default(),
        _tasks: tasks,
    }
}

fn start(client_ca: Option<PathBuf>) -> Running {
    let running = begin(client_ca);
    running.decide();
    running
}

fn review(name: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "name": name,
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
            "object": {"metadata": {"name": name}},
        },
    })
}

impl Running {
    fn decide(&self) {
        self.webhook.decide_by(by_name(Arc::clone(&self.reviews)));
    }

    async fn ask(&self, body: &Value) -> Reply {
        let request = post(PATH, body.to_string());
        send(self.address, &Identity::Anonymous, request).await
    }

    /// The response in the answer about a new volume.
    async fn response(&self, name: &str) -> Value {
        let reply = self.ask(&review(name)).await;
        assert_eq!(reply.code, 200, "{}", reply.body);
        assert_eq!(reply.header("content-type"), "application/json");
        let mut answer: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(answer["response"]["uid"], "u-1");
        answer["response"].take()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header(header::HOST, "localhost")
        .body(Full::new(body.into()))
        .unwrap()
}

#[tokio::test]
async fn each_verdict_has_its_answer_and_is_counted() {
    let server = start(None);
    let labelled = server.response("disk").await;
    assert_eq!(labelled["patchType"], "JSONPatch");
    let foreign = server.response("foreign").await;
    assert_eq!(foreign, json!({"uid": "u-1", "allowed": true}));
    let wrong = server.response("wrong").await;
    assert_eq!(wrong["allowed"], false);
    assert_eq!(wrong["status"]["message"], "zone a, not b");
    let away = server.ask(&review("away")).await;
    let expected = "error generating admission response: the provider is away\n";
    assert_eq!((away.code, &*away.body), (500, expected));
    let metrics = server.metrics();
    // Not Q-26.
    for (code, count) in [(200, 3), (500, 1)] {
        let labels = format!("{{code=\"{code}\",webhook=\"persistentvolume-labels\"}} {count}\n");
        for name in ["request_total", "request_duration_seconds_count"] {
            let line = format!("cloud_provider_webhook_{name}{labels}");
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    }
}

#[tokio::test]
async fn a_late_provider_is_an_error_before_the_api_server_stops_waiting() {
    let server = start(None);
    let late = server.ask(&review("late")).await;
    assert_eq!(late.code, 500);
    assert!(late.body.contains("within 900 ms"), "{}", late.body);
}

/// Any client can do that: it is not counted as a failure of the webhook.
#[tokio::test]
async fn a_body_that_does_not_arrive_is_the_clients_fault() {
    let server = start(None);
    let mut stream = connect(server.address, &Identity::Anonymous).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 9\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// Any client that reaches the port can ask, and cause lookups in the cloud.
#[tokio::test]
async fn requests_beyond_the_places_are_refused_and_counted_until_a_place_is_free() {
    let server = start(None);
    let taken = server.webhook.places.try_acquire_many(PLACES as u32);
    let refused = server.ask(&review("disk")).await;
    assert_eq!(refused.code, 503);
    assert!(refused.body.contains("too many admission requests"));
    let count = "cloud_provider_webhook_request_total{code=\"503\",webhook=\"persistentvolume-labels\"} 1\n";
    assert!(server.metrics().contains(count));
    drop(taken);
    server.response("disk").await;
}

/// The API server may reach another replica then.
#[tokio::test]
async fn a_replica_that_cannot_decide_ends_the_connection() {
    let server = start(None);
    let ask = async |name: &str| server.ask(&review(name)).await;
    assert_eq!(ask("away").await.header("connection"), "close");
    let decided = ask("disk").await;
    assert_eq!(decided.headers.get("connection"), None);
}

/// W-9: a port that is open answers.
#[tokio::test]
async fn before_there_is_something_to_decide_with_each_request_is_an_error() {
    let server = begin(None);
    let early = server.ask(&review("disk")).await;
    assert_eq!(early.code, 500);
    assert!(early.body.contains("has not reached the API server"));
    server.decide();
    server.response("disk").await;
}

#[tokio::test]
async fn requests_that_fail_alike_are_logged_once_a_minute() {
    let warnings = Warnings::listen();
    let server = start(None);
    for _ in 0..20 {
        assert_eq!(server.ask(&review("away")).await.code, 500);
        assert_eq!(server.ask(&json!({})).await.code, 400);
    }
    let lines = warnings.with("admission request failed");
    let codes = ["500", "400"].map(|code| format!("code={code}"));
    let of = |code: &String| lines.iter().filter(|line| line.contains(code)).count();
    assert_eq!(codes.each_ref().map(of), [1, 1], "{lines:?}");
}

/// P-20.
#[tokio::test]
async fn requests_about_anything_but_new_volumes_pass() {
    let server = start(None);
    let pass = json!({"uid": "u-1", "allowed": true});
    for (field, value) in [
        ("operation", json!("UPDATE")),
        ("operation", json!("DELETE")),
        ("subResource", json!("status")),
        ("object", Value::Null),
        ("resource", json!({"group": "", "resource": "pods"})),
        (
            "resource",
            json!({"group": "x", "resource": "persistentvolumes"}),
        ),
    ] {
        let mut review = review("disk");
        review["request"][field] = value;
        let reply = server.ask(&review).await;
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(answer["response"], pass, "{review}");
    }
    assert!(server.reviews.lock().is_empty());
}

/// W-4, W-5.
#[tokio::test]
async fn a_request_that_is_no_review_is_refused_at_once() {
    let server = start(None);
    let whole = review("disk").to_string();
    let anyone = Identity::Anonymous;
    let ask = async |request| {
        let reply = send(server.address, &anyone, request).await;
        (reply.code, reply.body)
    };
    let (code, body) = ask(post("/persistentvolume-labels", "")).await;
    assert_eq!(
        (code, &*body),
        (400, "admission request HTTP body is empty\n")
    );
    let (code, body) = ask(post(PATH, "no JSON")).await;
    assert!(
        code == 400 && body.contains("could not deserialize"),
        "{body}"
    );
    let (code, _) = ask(post(PATH, vec![b' '; 5 << 20])).await;
    assert_eq!(code, 400);
    for path in ["/", "/persistentvolume-labels/", "/metrics", "/healthz"] {
        assert_eq!(ask(post(path, whole.clone())).await.0, 404, "{path}");
    }
    let mut get = post(PATH, whole);
    *get.method_mut() = http::Method::GET;
    assert_eq!(ask(get).await.0, 405);
}

#[tokio::test]
async fn a_client_needs_a_certificate_where_a_ca_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let ca = Authority::new("clients");
    fs::write(&file, &ca.pem).unwrap();
    let server = start(Some(file.clone()));
    let code = async |identity: Identity| {
        let request = post(PATH, review("disk").to_string());
        send(server.address, &identity, request).await.code
    };
    assert_eq!(code(Identity::Anonymous).await, 401);
    assert_eq!(code(Authority::new("clients").sign("eve", &[])).await, 401);
    assert_eq!(code(ca.sign("api-server", &[])).await, 200);
}

#[test]
fn an_answer_comes_before_the_api_server_stops_waiting() {
    for (query, millis) in [
        (None, 4_500),
        (Some("timeout=10s"), 9_000),
        (Some("dryRun=All&timeout=1s"), 900),
        (Some("timeout=1ns"), 900),
        (Some("timeout=30s"), 27_000),
        (Some("timeout=2h"), 27_000),
        (Some("timeout=-3s"), 4_500),
        (Some("timeout=soon"), 4_500),
        (Some("timeout"), 4_500),
    ] {
        let within = answer_within(query);
        assert_eq!(within, Duration::from_millis(millis), "{query:?}");
    }
}
