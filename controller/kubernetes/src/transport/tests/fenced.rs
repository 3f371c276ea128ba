//! Writes whose lease is lost while they wait.

use std::{
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{api::DeletePreconditions, error::ApiError};
use outrigger_runtime::fence::Fence;

/// The API server at `server`, and the switch that says whether this process leads.
async fn fenced(
    directory: &Path,
    cluster: serde_json::Value,
    user: serde_json::Value,
) -> (Api, Arc<AtomicBool>) {
    let source = write(directory, &cluster, &user);
    let leads = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&leads);
    let is_leader = move || flag.load(Ordering::Relaxed);
    let fence = Fence::new(is_leader, &CancellationToken::new());
    (api(&source).await.fenced(fence), leads)
}

async fn delete(api: &Api) -> ApiError {
    let presumed = DeletePreconditions {
        uid: "uid",
        resource_version: "7",
    };
    let deleted = timeout(WAIT, api.delete("/api/v1/nodes/n1", presumed));
    deleted.await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_lease_that_is_lost_while_a_plugin_runs_comes_before_the_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let reply = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
    let script = format!(
        "#!/bin/sh\ntouch {}\nuntil [ -e {} ]; do sleep 0.01; done\necho '{reply}'\n",
        path("started").display(),
        path("go").display(),
    );
    fs::write(path("plugin.sh"), script).unwrap();
    fs::set_permissions(path("plugin.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = json!({ "server": format!("http://{}", listener.local_addr().unwrap()) });
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": path("plugin.sh"),
        "interactiveMode": "Never",
    }});
    let (api, leads) = fenced(directory.path(), cluster, user).await;
    let (error, ()) = tokio::join!(delete(&api), async {
        while !path("started").exists() {
            sleep(Duration::from_millis(5)).await;
        }
        leads.store(false, Ordering::Relaxed);
        fs::write(path("go"), "").unwrap();
    });
    assert!(matches!(error, ApiError::Fenced), "{error}");
}

/// Over HTTP/2 the head of a request is sent before its body is asked for.
#[tokio::test]
async fn a_lease_that_is_lost_when_the_body_is_due_leaves_no_whole_request() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let api = api(&kubeconfig(
        directory.path(),
        &server,
        &json!({}),
        &json!({}),
    ))
    .await;
    get(&api).await.unwrap();
    // Before the request is made, after the wait for the budget, after that for the credential, for the body.
    let checks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&checks);
    let is_leader = move || count.fetch_add(1, Ordering::Relaxed) < 3;
    let fence = Fence::new(is_leader, &CancellationToken::new());
    let error = delete(&api.fenced(fence)).await;
    assert!(matches!(error, ApiError::Fenced), "{error}");
    assert_eq!(checks.load(Ordering::Relaxed), 4);
    // The connection goes on.
    let presumed = DeletePreconditions {
        uid: "uid",
        resource_version: "7",
    };
    api.delete("/api/v1/nodes/n2", presumed).await.unwrap();
    assert_eq!(server.writes(), ["DELETE"]);
}

#[tokio::test]
async fn a_lease_that_is_lost_while_the_connection_is_made_comes_before_the_write() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = json!({
        "server": "http://192.0.2.1:6443",
        "proxy-url": format!("http://{}", proxy.local_addr().unwrap()),
    });
    let (api, leads) = fenced(directory.path(), cluster, json!({})).await;
    let (error, sent) = tokio::join!(delete(&api), async {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        leads.store(false, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut sent = Vec::new();
        timeout(WAIT, stream.read_to_end(&mut sent))
            .await
            .unwrap()
            .unwrap();
        String::from_utf8(sent).unwrap()
    });
    assert!(matches!(error, ApiError::Fenced), "{error}");
    assert_eq!(sent, "");
}
