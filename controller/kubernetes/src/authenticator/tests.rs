use base64::{Engine, prelude::BASE64_STANDARD};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use kube::config::ExecConfig;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::metrics::ClientMetrics;
use outrigger_runtime::fixture::Warnings;

/// A plugin that is a shell script; what it does beside is in `script`.
fn plugin(directory: &Path, script: &str) -> AuthInfo {
    let (path, source) = (directory.join("plugin.sh"), directory.join("source.sh"));
    fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    // Written by another process: a child that another test forks meanwhile would hold a descriptor of ours,
    // and a file that is open for writing cannot be executed (ETXTBSY).
    let mut copy = std::process::Command::new("cp");
    let copied = copy.arg("-p").args([&source, &path]).status();
    assert!(copied.unwrap().success());
    AuthInfo {
        exec: Some(ExecConfig {
            command: Some(path.to_str().unwrap().into()),
            api_version: Some("client.authentication.k8s.io/v1".into()),
            install_hint: Some("get it from https://example.com".into()),
            ..ExecConfig::default()
        }),
        ..AuthInfo::default()
    }
}

/// Prints a credential with a token that counts the runs, and `status` beside it.
fn printing(directory: &Path, status: &str) -> String {
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

fn authenticators() -> (Authenticators, ClientMetrics) {
    let metrics = ClientMetrics::register(&mut Registry::default());
    (Authenticators::new(&metrics), metrics)
}

fn token(credential: &Credential) -> String {
    let header = credential.header.as_ref().unwrap();
    assert!(header.is_sensitive());
    header.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_plugin_runs_once_for_all_clients_and_again_after_a_401() {
    let directory = tempfile::tempdir().unwrap();
    let user = plugin(directory.path(), &printing(directory.path(), ""));
    let (authenticators, metrics) = authenticators();
    let clients: Vec<_> = (0..20)
        .map(|_| authenticators.of(&user, None).unwrap())
        .collect();
    let answers = clients.iter().map(Authenticator::current);
    for answer in futures::future::join_all(answers).await {
        assert_eq!(token(&answer.unwrap()), "Bearer token-1");
    }
    assert_eq!(runs(directory.path()), 1);
    assert_eq!(metrics.exec.count(), 1);

    let first = clients[0].current().await.unwrap();
    clients[0].refused(&first, "server");
    assert_eq!(
        token(&clients[1].current().await.unwrap()),
        "Bearer token-1",
        "it ran just now"
    );
    clients[0].0.state.write().not_before = None;
    let second = clients[1].current().await.unwrap();
    assert_eq!(token(&second), "Bearer token-2");
    // A late 401 for the former says nothing about this one.
    clients[2].refused(&first, "server");
    clients[0].0.state.write().not_before = None;
    assert_eq!(
        token(&clients[2].current().await.unwrap()),
        "Bearer token-2"
    );
    assert_eq!(runs(directory.path()), 2);
}

#[tokio::test]
async fn a_credential_is_used_until_shortly_before_it_expires() {
    let directory = tempfile::tempdir().unwrap();
    let expires = Timestamp::now() + Duration::from_secs(70);
    let status = format!(r#","expirationTimestamp":"{expires}""#);
    let user = plugin(directory.path(), &printing(directory.path(), &status));
    let (authenticators, _) = authenticators();
    let authenticator = authenticators.of(&user, None).unwrap();
    authenticator.current().await.unwrap();
    let now = Instant::now();
    let due = |seconds| {
        let held = authenticator.0.state.read();
        held.due(now + Duration::from_secs(seconds))
    };
    assert_eq!(due(30), Due::Nothing);
    assert_eq!(due(60), Due::Nothing);
    assert_eq!(due(65), Due::Soon);
    assert_eq!(due(71), Due::Now);
}

/// On the paused clock, which stands still while a thread waits for the plugin.
#[expect(
    clippy::disallowed_methods,
    reason = "the process that the plugin starts ends in real time"
)]
#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_is_killed_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Held by a process that the plugin starts.
    let script = format!("sleep 60 >{} & wait", pipe.display());
    let user = plugin(directory.path(), &script);
    let plugin = Plugin::new(user.exec.as_ref().unwrap(), ExecMetrics::default()).unwrap();
    // Opened when the plugin runs.
    let opened = tokio::task::spawn_blocking(move || fs::File::open(pipe).unwrap());
    let files = Files::default();
    let (ended, opened) = tokio::join!(plugin.run(&files), opened);
    let error = ended.err().unwrap();
    assert!(
        error.contains("plugin.sh did not end within 30 s and was killed"),
        "{error}"
    );
    // Ends when the last process that could write does.
    let killed = std::time::Instant::now();
    let ended = tokio::task::spawn_blocking(move || std::io::read_to_string(opened.unwrap()));
    ended.await.unwrap().unwrap();
    assert!(
        killed.elapsed() < Duration::from_secs(30),
        "its child goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_words_differ_each_time_is_said_once_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let user = plugin(directory.path(), "");
    let authenticator = authenticators().0.of(&user, None).unwrap();
    authenticator.0.replace(Ok(Material::default()));
    let warnings = Warnings::listen();
    for run in 0..24 {
        authenticator
            .0
            .replace(Err(format!("request {run} failed")));
        tokio::time::advance(PAUSE).await;
    }
    let said = warnings.with("the former credential is used on");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("others=11"), "{said:?}");
}

/// client-go observes the same age: from the beginning of the certificate until it is replaced.
#[test]
fn the_age_of_a_plugins_certificate_is_observed_when_it_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut registry = Registry::default();
    let metrics = ClientMetrics::register(&mut registry);
    let user = plugin(directory.path(), "");
    let authenticator = Authenticators::new(&metrics).of(&user, None).unwrap();
    let yielded = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        let now = std::time::SystemTime::from(jiff::Timestamp::now());
        params.not_before = (now - Duration::from_hours(2)).into();
        let certificate = params.self_signed(&key).unwrap().pem();
        let pair = tls::pair(certificate.as_bytes(), key.serialize_pem().as_bytes());
        Material {
            certificate: Some(pair.unwrap()),
            ..Material::default()
        }
    };
    let has = |line: &str| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = format!("rest_client_exec_plugin_certificate_rotation_age_{line}");
        assert!(text.lines().any(|have| have == line), "{line} in {text}");
    };
    let first = yielded();
    authenticator.0.replace(Ok(first.clone()));
    authenticator.0.replace(Ok(first));
    has("count 0");
    authenticator.0.replace(Ok(yielded()));
    has("count 1");
    has("bucket{le=\"3600.0\"} 0");
    has("bucket{le=\"14400.0\"} 1");
}

#[tokio::test]
async fn a_plugin_that_fails_says_why_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    for (script, expected) in [
        (
            "echo no login >&2; exit 3",
            "failed with exit code 3: no login",
        ),
        (
            "echo hello",
            "the output is no ExecCredential: expected value at line 1",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{}}'"#,
            "the plugin is configured to use API version client.authentication.k8s.io/v1, and \
             returned version client.authentication.k8s.io/v1beta1",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'"#,
            "the plugin did not return a status",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{}}'"#,
            "the plugin did not return a token or a certificate and key",
        ),
        // No stdin to wait for, and the documented input.
        (
            r#"read line; echo "$KUBERNETES_EXEC_INFO" >&2; exit 1"#,
            r#"exit code 1: {"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#,
        ),
    ] {
        let user = plugin(directory.path(), script);
        let authenticator = authenticators().0.of(&user, None).unwrap();
        let error = authenticator.current().await.err().unwrap().to_string();
        assert!(
            error.starts_with("no credential for the API server: exec: "),
            "{error}"
        );
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("plugin.sh"), "{error}");
        // It is not run again for each request.
        let again = authenticator.current().await.err().unwrap().to_string();
        assert_eq!(again, error);
    }
    let mut missing = plugin(directory.path(), "");
    missing.exec.as_mut().unwrap().command = Some("/nowhere/plugin".into());
    let authenticator = authenticators().0.of(&missing, None).unwrap();
    let error = authenticator.current().await.err().unwrap().to_string();
    assert_eq!(
        error,
        "no credential for the API server: exec: executable /nowhere/plugin not found; get it \
         from https://example.com"
    );
}

/// Such outputs reach the log, as each request fails with the error.
#[tokio::test]
async fn no_word_of_the_output_of_a_plugin_is_in_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let version = "client.authentication.k8s.io/v1";
    let key = "-----BEGIN PRIVATE KEY-----hush-----END PRIVATE KEY-----";
    let key_pair = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key_pair);
    let certificate = certificate.unwrap().pem();
    for output in [
        json!("hush"),
        json!(["hush"]),
        json!({"apiVersion": "hush", "status": {"token": "hush"}}),
        json!({"apiVersion": version, "status": "hush"}),
        json!({"apiVersion": version, "status": {"token": ["hush"]}}),
        json!({"apiVersion": version, "status": {"token": "hu\nsh"}}),
        json!({"apiVersion": version, "status": {"expirationTimestamp": "hush"}}),
        json!({"apiVersion": version, "status": {"clientKeyData": "hush"}}),
        json!({"apiVersion": version, "status": {
            "clientCertificateData": certificate, "clientKeyData": "hush",
        }}),
        json!({"apiVersion": version, "status": {
            "clientCertificateData": certificate, "clientKeyData": key,
        }}),
        json!({"apiVersion": version, "status": {
            "clientCertificateData": key, "clientKeyData": "hush",
        }}),
    ] {
        let output = output.to_string();
        let user = plugin(directory.path(), &format!("printf '%s' '{output}'"));
        let authenticator = authenticators().0.of(&user, None).unwrap();
        let error = authenticator.current().await.err().unwrap().to_string();
        assert!(error.contains("plugin.sh: "), "{error}");
        // The secret as text, and as bytes of a line.
        for leaked in ["hush", "104, 117, 115, 104", "hu\\nsh"] {
            assert!(!error.contains(leaked), "{output}: {error}");
        }
    }
}

/// Such as a Secret that is mounted.
#[tokio::test(start_paused = true)]
async fn a_kubeconfig_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let write = |user: serde_json::Value| {
        let file = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://served"}}],
            "users": [{"name": "of another", "user": {"token": "other"}}, {"name": "u", "user": user}],
        });
        fs::write(&path, file.to_string()).unwrap();
    };
    write(json!({"token": "one"}));
    let kubeconfig = Kubeconfig::new(&path, None).unwrap();
    let user = kubeconfig.read().unwrap();
    let authenticator = authenticators().0.of(&user, Some(kubeconfig)).unwrap();
    let current = async || authenticator.current().await.unwrap();
    let first = current().await;
    assert_eq!(token(&first), "Bearer one");
    write(json!({"token": "two"}));
    tokio::time::advance(FILES).await;
    while token(&current().await) != "Bearer two" {
        tokio::task::yield_now().await;
    }
    // A certificate instead of a token: other connections, and no header.
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::default();
    let certificate = params.self_signed(&key).unwrap().pem();
    write(json!({
        "client-certificate-data": BASE64_STANDARD.encode(certificate),
        "client-key-data": BASE64_STANDARD.encode(key.serialize_pem()),
    }));
    tokio::time::advance(FILES + PAUSE).await;
    while current().await.header.is_some() {
        tokio::task::yield_now().await;
    }
    assert!(authenticator.0.presented.current().is_some());
    assert_eq!(current().await.generation, first.generation + 1);

    // A file that cannot be used leaves the last credential, and is named.
    let warnings = Warnings::listen();
    for broken in ["{", "current-context: none"] {
        fs::write(&path, broken).unwrap();
        tokio::time::advance(Duration::from_mins(2)).await;
        while warnings.with(&path.display().to_string()).is_empty() {
            assert!(current().await.header.is_none());
            tokio::task::yield_now().await;
        }
        assert!(authenticator.0.presented.current().is_some());
    }
    write(json!({"token": "three"}));
    tokio::time::advance(FILES + PAUSE).await;
    while current().await.header.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(token(&current().await), "Bearer three");
}

#[tokio::test(start_paused = true)]
async fn a_file_with_a_token_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "one\n").unwrap();
    let user = AuthInfo {
        token_file: Some(path.to_str().unwrap().into()),
        ..AuthInfo::default()
    };
    let authenticator = authenticators().0.of(&user, None).unwrap();
    let shown = async || token(&authenticator.current().await.unwrap());
    assert_eq!(shown().await, "Bearer one");
    fs::write(&path, "two\n").unwrap();
    assert_eq!(shown().await, "Bearer one");
    tokio::time::advance(FILES).await;
    // This request does not wait for the file.
    shown().await;
    while shown().await != "Bearer two" {
        tokio::task::yield_now().await;
    }
    // A file that is gone leaves the last token.
    fs::remove_file(&path).unwrap();
    tokio::time::advance(FILES + PAUSE).await;
    assert_eq!(shown().await, "Bearer two");
}

#[test]
fn credentials_of_a_kubeconfig_are_checked_at_once() {
    let text = |text: &str| Some(text.to_owned());
    let refused = |user: AuthInfo| authenticators().0.of(&user, None).err().unwrap();
    let file = AuthInfo {
        client_certificate: text("/nowhere/tls.crt"),
        client_key: text("/nowhere/tls.key"),
        ..AuthInfo::default()
    };
    assert!(refused(file).starts_with("/nowhere/tls.crt: No such file"));
    let half = AuthInfo {
        client_certificate: text("/nowhere/tls.crt"),
        ..AuthInfo::default()
    };
    assert_eq!(
        refused(half),
        "the user has a client-certificate and no client-key"
    );
    let provider = AuthInfo {
        auth_provider: Some(kube::config::AuthProviderConfig {
            name: "gcp".into(),
            ..Default::default()
        }),
        ..AuthInfo::default()
    };
    assert!(refused(provider).starts_with("no Auth Provider found for name \"gcp\""));
    let basic = AuthInfo {
        username: text("Aladdin"),
        password: Some("open sesame".into()),
        ..AuthInfo::default()
    };
    let held = authenticators().0.of(&basic, None).unwrap();
    let held = held.0.state.read();
    let header = held.credential.as_ref().unwrap().header.as_ref().unwrap();
    assert_eq!(header, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

#[test]
fn an_expired_certificate_is_named_with_its_date() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.not_after = rcgen::date_time_ymd(2026, 2, 3);
    let pem = params.self_signed(&key).unwrap().pem();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("tls.crt"), &pem).unwrap();
    fs::write(path("tls.key"), key.serialize_pem()).unwrap();
    let inline = AuthInfo {
        client_certificate_data: Some(BASE64_STANDARD.encode(&pem)),
        client_key_data: Some(BASE64_STANDARD.encode(key.serialize_pem()).into()),
        ..AuthInfo::default()
    };
    let file = AuthInfo {
        client_certificate: Some(path("tls.crt")),
        client_key: Some(path("tls.key")),
        ..AuthInfo::default()
    };
    let hint = |user: &AuthInfo, at: &str| {
        let authenticator = authenticators().0.of(user, None).unwrap();
        authenticator.hint(at.parse().unwrap())
    };
    let [before, after] = ["2026-02-02T00:00:00Z", "2026-02-04T00:00:00Z"];
    for user in [inline, file] {
        let sentence = hint(&user, after);
        assert!(
            sentence.contains("expired on 2026-02-03T00:00:00Z"),
            "{sentence}"
        );
        let sentence = hint(&user, before);
        assert!(sentence.contains("valid until 2026-02-03"), "{sentence}");
    }
    let sentence = hint(&AuthInfo::default(), before);
    assert!(
        sentence.contains("check that its credentials"),
        "{sentence}"
    );
}
