mod dead;
mod logins;
mod server;

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Response;
use http_body_util::BodyExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use self::server::Server;
use super::*;
use crate::{api::Api, error::ApiError};
use outrigger_runtime::{fence::Fence, fixture::Warnings};

/// Limit of every wait for something that must come.
const WAIT: Duration = Duration::from_secs(20);

/// A kubeconfig with these entries of its cluster and its user.
fn kubeconfig(directory: &Path, cluster: &serde_json::Value, user: &serde_json::Value) -> Source {
    let file = json!({
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [{"name": "of another", "user": {"token": "other"}}, { "name": "u", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    let path = directory.join("kubeconfig");
    fs::write(&path, file.to_string()).unwrap();
    Source {
        kubeconfig: Some(path),
        master: None,
    }
}

/// A kubeconfig for `server`.
fn of(directory: &Path, server: &Server, user: &serde_json::Value) -> Source {
    let cluster = json!({
        "server": format!("https://{}", server.address),
        "certificate-authority-data": BASE64_STANDARD.encode(&server.ca),
    });
    kubeconfig(directory, &cluster, user)
}

async fn clients(source: &Source) -> Result<Clients, SourceError> {
    Clients::new(source.load().unwrap(), ClientMetrics::default()).await
}

async fn api(source: &Source) -> Api {
    Api::new(
        clients(source)
            .await
            .unwrap()
            .build("test", Budget::UNLIMITED),
    )
}

async fn get(api: &Api) -> Result<serde_json::Value, String> {
    let got = timeout(WAIT, api.get("/version"));
    got.await.unwrap().map_err(|error| error.to_string())
}

/// A fence, and the switch that says whether this process leads.
fn fence() -> (Fence, Arc<AtomicBool>) {
    let leads = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&leads);
    let is_leader = move || flag.load(Ordering::Relaxed);
    (Fence::new(is_leader, &CancellationToken::new()), leads)
}

/// Thousands of writes may come due at one time, each of which was an open file.
#[tokio::test(start_paused = true)]
async fn few_writes_are_in_flight_and_the_rest_waits_without_a_limit_of_time() {
    let in_flight = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (Arc::clone(&in_flight), Arc::clone(&most));
    let server = service_fn(move |_: Request<Body>| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(20)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            let body = Body::empty().map_err(BoxError::from).boxed_unsync();
            Ok::<_, BoxError>(Response::new(body))
        }
    });
    let server = ApiServer::in_process(HttpService::new(server));
    let clients = Clients::new(server, ClientMetrics::default())
        .await
        .unwrap();
    let api = Api::new(clients.build("test", Budget::UNLIMITED));
    let writes = (0..5 * IN_FLIGHT).map(|_| api.create_unread("/api/v1/events", &()));
    let ended = futures::future::join_all(writes).await;
    assert_eq!(most.load(Ordering::Relaxed), IN_FLIGHT);
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
}

fn source(kubeconfig: Option<&Path>, master: Option<&str>) -> Source {
    Source {
        kubeconfig: kubeconfig.map(Path::to_owned),
        master: master.map(str::to_owned),
    }
}

#[test]
fn bad_sources_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let file = source(Some(&path), None);
    let message = |source: &Source| source.load().unwrap_err().to_string();
    let missing = message(&file);
    assert!(
        missing.contains("kubeconfig") && missing.contains("No such file"),
        "{missing}"
    );
    for (text, says) in [
        ("clusters: 3", path.to_str().unwrap()),
        (
            "apiVersion: v1\nkind: Config\nclusters:\n- name: [a\n  cluster: {}\n",
            "line ",
        ),
        // A token that stands where an object should.
        (
            "apiVersion: v1\nkind: Config\nusers:\n- name: ann\n  user: hush\n",
            "",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let bad = message(&file);
        assert!(bad.contains(says) && bad.len() < 300, "{bad}");
        assert_eq!(bad.lines().count(), 1, "{bad}");
        assert!(!bad.contains("hush"), "{bad}");
    }
    for (master, says) in [
        ("10.0.0.1", "\"10.0.0.1\" is not a URL"),
        (
            "https://ann:hush hush@10.0.0.1",
            "\"https://10.0.0.1\" is not",
        ),
    ] {
        let bad = message(&source(None, Some(master)));
        assert!(bad.contains(says), "{bad}");
    }
}

/// Each request and each message would carry them.
#[test]
fn user_and_password_in_the_url_of_the_api_server_go_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let server = "https://ann:hush@10.0.0.1:6443/behind";
    let file = kubeconfig(dir.path(), &json!({ "server": server }), &json!({}));
    for source in [file, source(None, Some(server))] {
        let warnings = Warnings::listen();
        let loaded = source.load().unwrap();
        let url = loaded.config.cluster_url.to_string();
        assert_eq!(url, "https://10.0.0.1:6443/behind");
        let said = warnings.with("names a user, which is left out");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(!said[0].contains("hush"), "{said:?}");
    }
}

#[test]
fn a_client_says_who_it_is() {
    let agent = user_agent("node-controller");
    let agent = agent.to_str().unwrap();
    assert!(agent.starts_with("outrigger/0."), "{agent}");
    assert!(agent.ends_with(") node-controller"), "{agent}");
}

#[test]
fn a_negative_qps_is_no_limit() {
    let is_limited = |qps, burst| Budget { qps, burst }.limiter().is_some();
    assert!(Budget::UNLIMITED.limiter().is_none());
    assert!(is_limited(1000.0, 2000) && is_limited(0.001, 0));
}
