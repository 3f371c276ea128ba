//! The control plane itself.

use std::{path::Path, process::Stdio, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use outrigger_testbed::{ControlPlane, Options, shared};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::{sleep, timeout},
};

fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

#[tokio::test]
async fn delegated_authentication_finds_its_config_map() {
    let client = shared().await.unwrap().client().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    let map = maps
        .get("extension-apiserver-authentication")
        .await
        .unwrap();
    let data = map.data.unwrap();
    for key in ["client-ca-file", "requestheader-client-ca-file"] {
        assert!(data[key].contains("BEGIN CERTIFICATE"), "{key}");
    }
}

#[tokio::test]
async fn rbac_refuses_a_user_without_rights() {
    let client = shared()
        .await
        .unwrap()
        .client_of("without-rights", None)
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let error = namespaces.get("default").await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error}"
    );
}

#[tokio::test]
async fn a_killed_api_server_comes_back_with_its_data() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client().unwrap());
    namespaces
        .create(&PostParams::default(), &namespace("kept"))
        .await
        .unwrap();

    plane.kill_apiserver().await.unwrap();
    let error = namespaces.get("kept").await.unwrap_err();
    assert!(
        !matches!(error, kube::Error::Api(_)),
        "an API server answered: {error}"
    );

    plane.start_apiserver().await.unwrap();
    namespaces.get("kept").await.unwrap();

    let dir = plane.dir().to_owned();
    plane.stop().await.unwrap();
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_component_that_does_not_start_is_reported_with_its_log() {
    let options = Options {
        apiserver_args: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err().to_string();
    assert!(error.contains("kube-apiserver ended by itself"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[tokio::test]
async fn nothing_outlives_an_owner_that_is_killed() {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_outrigger-testbed"))
        .arg("up")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let kubeconfig = lines
        .next_line()
        .await
        .unwrap()
        .expect("it ended without a kubeconfig");
    let dir = Path::new(&kubeconfig).parent().unwrap().to_owned();
    let processes = processes_with(dir.to_str().unwrap());
    // Two shells and what runs below them, and the sweeper.
    assert!(processes.len() >= 5, "{processes:?}");

    owner.kill().await.unwrap();
    let gone = async {
        while dir.exists() || !processes_with(dir.to_str().unwrap()).is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = timeout(Duration::from_secs(20), gone).await;
    in_time.unwrap_or_else(|_| panic!("left: {:?}", processes_with(dir.to_str().unwrap())));
}

/// The command lines of the running processes that name `text`.
fn processes_with(text: &str) -> Vec<String> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}
