//! To a TLS server that asks for client certificates, directly and through a proxy.

mod dead;
mod fenced;
mod server;

use std::{fs, path::Path, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::timeout;

use self::server::{Server, proxy};
use crate::{
    api::Api,
    authenticator::Authenticators,
    client::{Budget, Clients, Source},
    metrics::ClientMetrics,
};

/// Made by `openssl x509 -req`, without extensions: X.509 version 1.
const BY_HAND: &str = include_str!("tests/by-hand.pem");
const BY_HAND_KEY: &str = include_str!("tests/by-hand.key");

/// A kubeconfig for `server`, with these entries of its cluster and its user.
fn kubeconfig(
    directory: &Path,
    server: &Server,
    cluster: &serde_json::Value,
    user: &serde_json::Value,
) -> Source {
    let mut cluster = cluster.clone();
    cluster["server"] = format!("https://{}", server.address).into();
    cluster["certificate-authority-data"] = BASE64_STANDARD.encode(&server.ca).into();
    write(directory, &cluster, user)
}

fn write(directory: &Path, cluster: &serde_json::Value, user: &serde_json::Value) -> Source {
    let file = json!({
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [{ "name": "u", "user": user }],
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

async fn api(source: &Source) -> Api {
    let metrics = ClientMetrics::register(&mut Registry::default());
    let server = source.load().await.unwrap();
    let clients = Clients::new(server, &Authenticators::new(&metrics), metrics).unwrap();
    Api::new(clients.build("test", Budget::UNLIMITED).unwrap())
}

/// Limit of every wait for something that must come.
const WAIT: Duration = Duration::from_secs(20);

async fn get(api: &Api) -> Result<serde_json::Value, String> {
    let got = timeout(WAIT, api.get("/version"));
    got.await.unwrap().map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_client_certificate_of_version_1_is_presented() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(BY_HAND),
        "client-key-data": BASE64_STANDARD.encode(BY_HAND_KEY),
    });
    let api = api(&kubeconfig(directory.path(), &server, &json!({}), &user)).await;
    get(&api).await.unwrap();
    assert_eq!(server.presented(), ["by-hand"]);
}

#[tokio::test]
async fn a_certificate_that_was_rotated_is_presented_after_a_401() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| directory.path().join(name));
    let write = |name: &str| {
        let pair = server::pair(name);
        fs::write(&certificate, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    };
    write("before");
    // Relative to the kubeconfig.
    let user = json!({ "client-certificate": "tls.crt", "client-key": "tls.key" });
    let api = api(&kubeconfig(directory.path(), &server, &json!({}), &user)).await;
    get(&api).await.unwrap();
    get(&api).await.unwrap();
    assert_eq!(server.presented(), ["before"], "one connection for both");

    write("after");
    server.refuse("before");
    let refused = get(&api).await.unwrap_err();
    assert!(refused.contains("401"), "{refused}");
    get(&api).await.unwrap();
    assert_eq!(server.presented(), ["before", "after"]);
}

#[tokio::test]
async fn the_proxy_of_a_kubeconfig_is_gone_through() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let proxy = proxy("Basic dXNlcjpwYXNz").await;
    let cluster = json!({ "proxy-url": format!("http://user:pass@{}", proxy.address) });
    let api = api(&kubeconfig(directory.path(), &server, &cluster, &json!({}))).await;
    get(&api).await.unwrap();
    assert_eq!(
        proxy.requests(),
        [format!("CONNECT {} HTTP/1.1", server.address)]
    );

    let wrong = json!({ "proxy-url": format!("http://{}", proxy.address) });
    let api = self::api(&kubeconfig(directory.path(), &server, &wrong, &json!({}))).await;
    let error = get(&api).await.unwrap_err();
    assert!(error.contains("through the proxy: "), "{error}");
}
