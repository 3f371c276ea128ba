//! `sweep`: what a cluster has left in the cloud goes once its API server is gone, and not before.

use std::process::Stdio;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use outrigger_provider_mock::{
    faults::{Effect, InjectedError, Method},
    load_balancers::ServiceTag,
};
use outrigger_testbed::nodes::Machine;
use serde_json::Value;
use tokio::process::Command;
use tonic::Code;

use crate::{
    cluster::{SYSTEM, services::load_balancer},
    controller::{Ran, program},
    mock::{Mock, load_balancers::about},
    replica::LEASE,
    stage::{Setup, Stage},
    wait::{holds, until},
};

/// A cluster whose controller has made three load balancers and a route, beside load balancers of another cluster.
async fn used(mock: &[&str]) -> (Stage, String) {
    let common = [
        "--synthesize-instances",
        "--routes",
        "--lb-deprovisioning=2s",
    ];
    let mut stage = Setup::mock(&[&common, mock].concat())
        .flags(&[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            "--leader-elect=true",
        ])
        .start()
        .await;
    stage.register(&Machine::new("worker")).await;
    for name in ["web", "api", "db"] {
        stage.create_service(load_balancer(name)).await;
    }
    let tag = ServiceTag {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "f3b2".to_owned(),
    };
    let mock = &stage.mock;
    mock.add_load_balancer("lb-other", "another-cluster", Some(tag))
        .await;
    mock.add_load_balancer("lb-untagged", "another-cluster", None)
        .await;
    until("the cloud has all of it", async || {
        let have = (mock.load_balancers().await.len(), mock.routes().await.len());
        holds(have == (5, 1), || format!("{have:?}"))
    })
    .await;
    stage.kill_controller().await;
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    let system = namespaces.get(SYSTEM).await.unwrap();
    (stage, system.metadata.uid.unwrap())
}

fn command(stage: &Stage, uid: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(["sweep", &format!("--cluster-uid={uid}")])
        .args(args)
        .env_clear()
        .env("CLOUDPROVIDER_ENDPOINT", Mock::endpoint(stage.dir()))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn sweep(stage: &Stage, uid: &str, args: &[&str]) -> Ran {
    Ran::of(&mut command(stage, uid, args)).await
}

/// Ids of the load balancers in the cloud.
async fn balancers(stage: &Stage) -> Vec<String> {
    let balancers = stage.mock.load_balancers().await.into_iter();
    balancers.map(|balancer| balancer.id).collect()
}

#[tokio::test]
async fn a_cluster_is_swept_once_its_api_server_is_gone_and_not_before() {
    let (stage, uid) = used(&[]).await;
    let kubeconfig = stage.plane.kubeconfig("sweeper", Some("system:masters"));
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.unwrap().display());
    let with_api_server = [&*kubeconfig, "--gone-after=1s"];
    let before = balancers(&stage).await;

    let planned = sweep(&stage, &uid, &["--plan", "-o", "json"]).await;
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let shown: Value = serde_json::from_str(&planned.out).unwrap();
    let objects = shown["objects"].as_array().unwrap();
    let owners: Vec<_> = objects
        .iter()
        .map(|it| it["for"].as_str().unwrap())
        .collect();
    for owner in ["default/web", "default/api", "default/db", "worker"] {
        assert!(owners.contains(&owner), "{planned:?}");
    }
    assert_eq!(objects.len(), 4, "{planned:?}");

    // No terminal, and no word of the operator.
    let refused = sweep(&stage, &uid, &[]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    // The API server is there, whatever the operator says.
    let refused = sweep(&stage, &uid, &[&with_api_server[..], &["--yes"]].concat()).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("has the Lease"), "{refused:?}");
    let leases = stage.leases();
    leases
        .delete(LEASE, &DeleteParams::default())
        .await
        .unwrap();
    let refused = sweep(&stage, &uid, &with_api_server).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("API server of the cluster"),
        "{refused:?}"
    );
    // Another cluster's UID is another cluster's word.
    let none = sweep(&stage, "6d3f0f9b-1f2a-4a51-8e39-1b1e2f3a4b5c", &["--yes"]).await;
    assert_eq!(none.code, Some(0), "{none:?}");
    assert_eq!(balancers(&stage).await, before);

    stage.plane.kill_apiserver().await.unwrap();
    let swept = sweep(&stage, &uid, &with_api_server).await;
    assert_eq!(swept.code, Some(0), "{swept:?}");
    assert!(swept.out.contains("4 objects deleted, 0 left"), "{swept:?}");
    assert_eq!(balancers(&stage).await, ["lb-other", "lb-untagged"]);
    assert!(stage.mock.routes().await.is_empty());
    let again = sweep(&stage, &uid, &["--yes"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    stage.plane.start_apiserver().await.unwrap();
}

/// Command and provider are killed once one of its load balancers is gone, and once two are.
#[tokio::test]
async fn a_sweep_that_was_killed_is_run_again_to_its_end() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state={}", state.path().join("state.json").display());
    let (mut stage, uid) = used(&[&state, "--state-interval=10ms", "--state-sync"]).await;
    stage.plane.kill_apiserver().await.unwrap();
    for (hanging, left) in [(&["api", "db"][..], 4), (&["db"], 3)] {
        for name in hanging {
            let hang = Effect::Hang { duration: None };
            let hang = about(Method::DeleteLoadBalancer, name, hang);
            stage.mock.inject(hang).await;
        }
        let mut killed = command(&stage, &uid, &["--yes"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("a load balancer is gone", async || {
            let have = balancers(&stage).await.len();
            holds(have == left, || format!("{have}"))
        })
        .await;
        killed.kill().await.unwrap();
        stage.mock.kill().await;
        stage.restart_mock().await;
        assert_eq!(balancers(&stage).await.len(), left);
    }
    let swept = sweep(&stage, &uid, &["--yes"]).await;
    assert_eq!(swept.code, Some(0), "{swept:?}");
    assert_eq!(balancers(&stage).await, ["lb-other", "lb-untagged"]);
    assert!(stage.mock.routes().await.is_empty());
    stage.plane.start_apiserver().await.unwrap();
}

#[tokio::test]
async fn a_cluster_whose_api_server_answers_again_loses_no_more() {
    let (stage, uid) = used(&[]).await;
    let kubeconfig = stage.plane.kubeconfig("sweeper", Some("system:masters"));
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.unwrap().display());
    stage.plane.kill_apiserver().await.unwrap();
    let error = InjectedError::new(Code::Unavailable).with_reason("CLOUD_UNAVAILABLE");
    let down = about(Method::DeleteLoadBalancer, "web", Effect::Error(error));
    stage.mock.inject(down).await;
    let args = [&*kubeconfig, "--gone-after=1s"];
    let sweeping = sweep(&stage, &uid, &args);
    let back = async {
        until("the other load balancers are gone", async || {
            let have = balancers(&stage).await.len();
            holds(have == 3, || format!("{have}"))
        })
        .await;
        stage.plane.start_apiserver().await.unwrap();
    };
    let (swept, ()) = tokio::join!(sweeping, back);
    assert_eq!(swept.code, Some(1), "{swept:?}");
    assert!(swept.out.contains("has the Lease"), "{swept:?}");
    assert_eq!(balancers(&stage).await.len(), 3);
}
