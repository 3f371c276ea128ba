//! Tokens, certificates and plugins, and their rotation, at a TLS server that asks for client certificates.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time;

use super::{
    server::{pair, proxy},
    *,
};

/// The user with a new certificate for this name.
fn with_certificate(name: &str) -> Value {
    let pair = pair(name);
    json!({
        "client-certificate-data": BASE64_STANDARD.encode(pair.cert.pem()),
        "client-key-data": BASE64_STANDARD.encode(pair.signing_key.serialize_pem()),
    })
}

/// The user with a plugin that is a shell script.
fn with_plugin(directory: &Path, script: &str) -> Value {
    let (path, source) = (directory.join("plugin.sh"), directory.join("source.sh"));
    fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    // Written by another process: a child that another test forks meanwhile would hold a descriptor of ours,
    // and a file that is open for writing cannot be executed (ETXTBSY).
    let mut copy = std::process::Command::new("cp");
    let copied = copy.arg("-p").args([&source, &path]).status();
    assert!(copied.unwrap().success());
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": path}})
}

/// A script that prints a credential with a token that counts the runs, and `status` beside it.
fn counting(directory: &Path, status: &str) -> String {
    let runs = directory.join("runs");
    let reply = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"token-'$n'"{status}}}}}"#
    );
    format!(
        "echo >> {runs}\nn=$(wc -l < {runs} | tr -d ' ')\necho '{reply}'",
        runs = runs.display()
    )
}

fn runs(directory: &Path) -> usize {
    fs::read(directory.join("runs")).map_or(0, |runs| runs.len())
}

/// The time at which files are looked at has come.
async fn look() {
    time::pause();
    time::advance(Duration::from_secs(11)).await;
    time::resume();
}

/// Sends requests until the last one had this login.
async fn until(api: &Api, server: &Server, login: &str) {
    let requests = async {
        while server.logins().last().is_none_or(|last| last != login) {
            let _ = get(api).await;
        }
    };
    let ended = timeout(WAIT, requests).await;
    assert!(ended.is_ok(), "{login} not in {:?}", server.logins());
}

/// Such as a Secret that is mounted.
#[tokio::test]
async fn a_kubeconfig_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let write = |user: Value| of(directory.path(), &server, &user);
    let source = write(json!({"token": "one\n"}));
    let api = api(&source).await;
    get(&api).await.unwrap();
    write(json!({"token": "two"}));
    look().await;
    until(&api, &server, "Bearer two").await;
    // A certificate instead of a token: another connection, and no header.
    write(with_certificate("three"));
    look().await;
    until(&api, &server, "three").await;
    // A file that cannot be used leaves the last credential.
    for broken in ["{", "current-context: none"] {
        fs::write(source.kubeconfig.as_ref().unwrap(), broken).unwrap();
        look().await;
        for _ in 0..20 {
            get(&api).await.unwrap();
        }
    }
    write(json!({"username": "Aladdin", "password": "open sesame"}));
    look().await;
    let basic = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    until(&api, &server, basic).await;
    assert_eq!(
        server.logins(),
        ["Bearer one", "Bearer two", "three", basic]
    );
}

#[tokio::test]
async fn a_file_with_a_token_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let path = directory.path().join("token");
    fs::write(&path, "one\n").unwrap();
    let source = of(directory.path(), &server, &json!({"tokenFile": "token"}));
    let api = api(&source).await;
    get(&api).await.unwrap();
    fs::write(&path, "two\n").unwrap();
    look().await;
    until(&api, &server, "Bearer two").await;
    // Neither an empty file nor none is another token.
    fs::write(&path, "\n").unwrap();
    look().await;
    get(&api).await.unwrap();
    fs::remove_file(&path).unwrap();
    look().await;
    for _ in 0..20 {
        get(&api).await.unwrap();
    }
    assert_eq!(server.logins(), ["Bearer one", "Bearer two"]);
}

#[tokio::test]
async fn a_certificate_that_was_rotated_is_presented() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| directory.path().join(name));
    let write = |name: &str| {
        let pair = pair(name);
        fs::write(&certificate, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    };
    write("expired");
    // Relative to the kubeconfig.
    let user = json!({ "client-certificate": "tls.crt", "client-key": "tls.key" });
    let api = api(&of(directory.path(), &server, &user)).await;
    get(&api).await.unwrap();

    write("after");
    server.refuse("expired");
    let warnings = Warnings::listen();
    let refused = get(&api).await.unwrap_err();
    assert!(refused.contains("401"), "{refused}");
    assert_eq!(warnings.with("has not expired").len(), 1);
    look().await;
    until(&api, &server, "after").await;
    assert_eq!(server.logins(), ["expired", "after"]);
}

#[tokio::test]
async fn a_plugin_runs_once_for_all_clients_and_again_after_a_401() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let user = with_plugin(directory.path(), &counting(directory.path(), ""));
    let clients = clients(&of(directory.path(), &server, &user))
        .await
        .unwrap();
    let apis = ["a", "b"].map(|name| Api::new(clients.build(name, Budget::UNLIMITED)));
    for api in &apis {
        get(api).await.unwrap();
    }
    assert_eq!(runs(directory.path()), 1);
    server.refuse("Bearer token-1");
    get(&apis[0]).await.unwrap_err();
    look().await;
    for api in &apis {
        until(api, &server, "Bearer token-2").await;
    }
    assert_eq!(server.logins(), ["Bearer token-1", "Bearer token-2"]);
    assert_eq!(runs(directory.path()), 2);
}

/// A standby, which has no lease to lose, would be refused for ever.
#[tokio::test]
async fn a_plugin_that_hangs_is_left_alone_and_runs_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    // Until the folder goes, at the end of the test.
    let hang = format!(
        "while [ $n = 2 ] && [ -e {} ]; do sleep 0.01; done",
        directory.path().join("runs").display()
    );
    let script = format!("{}\n{hang}", counting(directory.path(), ""));
    let user = with_plugin(directory.path(), &script);
    let api = api(&of(directory.path(), &server, &user)).await;
    get(&api).await.unwrap();
    server.refuse("Bearer token-1");
    get(&api).await.unwrap_err();
    look().await;
    let second = async {
        while runs(directory.path()) < 2 {
            get(&api).await.unwrap_err();
        }
    };
    timeout(WAIT, second).await.unwrap();
    for _ in 0..3 {
        look().await;
    }
    until(&api, &server, "Bearer token-3").await;
    assert_eq!(server.logins(), ["Bearer token-1", "Bearer token-3"]);
}

/// kube replaces tokens of a plugin, and not its certificates.
#[tokio::test]
async fn a_certificate_of_a_plugin_is_replaced_before_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let print = |name: &str| {
        let pair = pair(name);
        let reply = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "clientCertificateData": pair.cert.pem(),
                "clientKeyData": pair.signing_key.serialize_pem(),
            },
        });
        fs::write(directory.path().join("reply"), reply.to_string()).unwrap();
    };
    print("expired");
    let script = format!("cat {}", directory.path().join("reply").display());
    let user = with_plugin(directory.path(), &script);
    let api = api(&of(directory.path(), &server, &user)).await;
    get(&api).await.unwrap();
    print("after");
    look().await;
    until(&api, &server, "after").await;
    assert_eq!(server.logins(), ["expired", "after"]);
}

/// Such errors reach the log.
#[tokio::test]
async fn no_word_of_a_key_or_of_the_output_of_a_plugin_is_in_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let version = "client.authentication.k8s.io/v1";
    let key = "-----BEGIN PRIVATE KEY-----hush-----END PRIVATE KEY-----";
    let certificate = pair("plugin").cert.pem();
    let with_key = |key: &str| {
        let status = json!({"clientCertificateData": certificate, "clientKeyData": key});
        json!({"apiVersion": version, "status": status})
    };
    for output in [
        json!("hush"),
        json!({"apiVersion": version, "status": "hush"}),
        json!({"apiVersion": version, "status": {"token": ["hush"]}}),
        json!({"apiVersion": version, "status": {"token": "hu\nsh"}}),
        json!({"apiVersion": version, "status": {"expirationTimestamp": "hush"}}),
        with_key("hush"),
        with_key(key),
    ] {
        let script = format!("printf '%s' '{output}'");
        let user = with_plugin(directory.path(), &script);
        let error = clients(&of(directory.path(), &server, &user)).await;
        let error = error.err().unwrap().to_string();
        for leaked in ["hush", "104, 117, 115, 104", "hu\\nsh"] {
            assert!(!error.contains(leaked), "{output}: {error}");
        }
    }
    let mut user = with_certificate("name");
    user["client-key-data"] = BASE64_STANDARD.encode(key).into();
    let error = clients(&of(directory.path(), &server, &user)).await;
    let error = error.err().unwrap().to_string();
    assert!(error.contains("private key"), "{error}");
    assert!(!error.contains("hush"), "{error}");
    let user = with_plugin(directory.path(), "echo hush; echo no login >&2; exit 3");
    let error = clients(&of(directory.path(), &server, &user)).await;
    let error = error.err().unwrap().to_string();
    assert!(error.ends_with("(exit status: 3): no login"), "{error}");
    assert!(error.contains("plugin.sh: "), "{error}");
}

#[tokio::test]
async fn a_lease_that_is_lost_while_a_plugin_runs_comes_before_the_write() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let path = |name: &str| directory.path().join(name);
    // The token has ended when it comes: the plugin runs at the start, and for the write.
    let status = format!(r#","expirationTimestamp":"{}""#, Timestamp::now());
    let script = format!(
        "{}\n[ $n = 1 ] && exit\ntouch {}\nuntil [ -e {} ]; do sleep 0.01; done",
        counting(directory.path(), &status),
        path("started").display(),
        path("go").display(),
    );
    let user = with_plugin(directory.path(), &script);
    let (fence, leads) = fence();
    let api = api(&of(directory.path(), &server, &user))
        .await
        .fenced(fence);
    let delete = timeout(WAIT, api.delete("/api/v1/nodes/n1", "uid", "7"));
    let (deleted, ()) = tokio::join!(delete, async {
        while !path("started").exists() {
            time::sleep(Duration::from_millis(5)).await;
        }
        leads.store(false, Ordering::Relaxed);
        fs::write(path("go"), "").unwrap();
    });
    let error = deleted.unwrap().unwrap_err();
    assert!(matches!(error, ApiError::Fenced), "{error}");
    assert!(server.logins().is_empty());
}

#[tokio::test]
async fn the_proxy_of_a_kubeconfig_is_gone_through() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let proxy = proxy("Basic dXNlcjpwYXNz").await;
    let through = |login: &str| {
        let cluster = json!({
            "server": format!("https://{}", server.address),
            "certificate-authority-data": BASE64_STANDARD.encode(&server.ca),
            "proxy-url": format!("http://{login}{}", proxy.address),
        });
        kubeconfig(directory.path(), &cluster, &json!({}))
    };
    get(&api(&through("user:pass@")).await).await.unwrap();
    let connect = format!("CONNECT {} HTTP/1.1", server.address);
    assert_eq!(proxy.requests(), [connect]);
    let error = get(&api(&through("")).await).await.unwrap_err();
    assert!(error.contains("proxy authorization required"), "{error}");
}
