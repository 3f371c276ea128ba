//! The way whose connections go dead.
#![expect(
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use outrigger_testbed::{dead_way::DeadWay, shared};
use tokio::time::timeout;

async fn namespaces(way: &DeadWay) -> Api<Namespace> {
    let file = Kubeconfig::read_from(way.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await;
    Api::all(Client::try_from(config.unwrap()).unwrap())
}

#[tokio::test]
async fn open_connections_go_dead_and_new_ones_work() {
    let plane = shared().await.unwrap();
    let group = Some("system:masters");
    let way = DeadWay::start(plane, "testbed-admin", group).await.unwrap();
    let before = namespaces(&way).await;
    before.get("default").await.unwrap();

    way.go_dead();
    let answer = timeout(Duration::from_secs(2), before.get("default")).await;
    assert!(answer.is_err(), "a dead connection answers: {answer:?}");
    namespaces(&way).await.get("default").await.unwrap();
}
