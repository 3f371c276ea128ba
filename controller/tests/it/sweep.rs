//! `sweep`: what a cluster has left in the cloud goes if an operator says so, and no API server that it finds is that of the cluster.

use std::{fs, process::Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use outrigger_provider_mock::{
    faults::{Effect, Method},
    load_balancers::ServiceTag,
};
use outrigger_testbed::nodes::Machine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    process::Command,
    task::JoinSet,
};

use crate::{
    cluster::{SYSTEM, services::load_balancer},
    controller::{Ran, program},
    mock::{Mock, load_balancers::about},
    stage::{Setup, Stage},
    wait::{holds, until},
};

const ANOTHER: &str = "6d3f0f9b-1f2a-4a51-8e39-1b1e2f3a4b5c";

/// A cluster whose controller has made three load balancers and a route, beside load balancers of another cluster.
async fn used() -> (Stage, String) {
    let mock = [
        "--synthesize-instances",
        "--routes",
        "--lb-deprovisioning=2s",
    ];
    let mut stage = Setup::mock(&mock)
        .flags(&[
            "--allocate-node-cidrs",
            "--controllers=*,node-ipam",
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
    mock.add_load_balancer("lb-other", ANOTHER, Some(tag)).await;
    mock.add_load_balancer("lb-untagged", ANOTHER, None).await;
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

/// A proxy that knows no such path, until its task is dropped.
async fn gateway() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page = "<html>404 page not found</html>";
            let answer = format!(
                "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (format!("http://{address}"), serving)
}

#[tokio::test]
async fn a_living_cluster_is_not_swept_whatever_its_address_answers() {
    let (stage, uid) = used().await;
    let before = (balancers(&stage).await, stage.mock.routes().await.len());
    let path = stage.plane.kubeconfig("sweeper", Some("system:masters"));
    let own = fs::read_to_string(path.unwrap()).unwrap();
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_saphyr::from_str(&own).unwrap();
        edit(&mut file["clusters"][0]["cluster"]);
        let path = stage.dir().join(format!("{:x}", fastrand::u64(..)));
        fs::write(&path, file.to_string()).unwrap();
        format!("--kubeconfig={}", path.display())
    };
    let (gateway, _serving) = gateway().await;
    let other = outrigger_testbed::ControlPlane::start(outrigger_testbed::Options::default())
        .await
        .unwrap();
    let other_path = other.kubeconfig("sweeper", Some("system:masters")).unwrap();
    let of_other = fs::read_to_string(&other_path).unwrap();
    let of_other: Value = serde_saphyr::from_str(&of_other).unwrap();
    let authority = &of_other["clusters"][0]["cluster"]["certificate-authority-data"];
    assert!(authority.is_string());
    let cases = [
        (edited(&|_| ()), "which is there"),
        (
            edited(&|cluster| cluster["certificate-authority-data"] = authority.clone()),
            "invalid peer certificate",
        ),
        (
            edited(&|cluster| cluster["tls-server-name"] = json!("other.example")),
            "invalid peer certificate",
        ),
        (edited(&|cluster| cluster["server"] = json!(gateway)), "404"),
        (
            edited(&|cluster| cluster["server"] = json!("https://127.0.0.1:1")),
            "cannot talk to the API server",
        ),
        // A controller of that cluster may have another Lease, which remembers this UID.
        (
            format!("--kubeconfig={}", other_path.display()),
            "no Lease kube-system/cloud-controller-manager",
        ),
        // No service account either.
        (
            "--timeout=5m".to_owned(),
            "no configuration has been provided",
        ),
    ];
    for (kubeconfig, why) in cases {
        let refused = sweep(&stage, &uid, &["--yes", &kubeconfig]).await;
        assert_eq!(refused.code, Some(2), "{why}: {refused:?}");
        assert!(refused.err.contains(why), "{why}: {refused:?}");
    }
    // Nor by a process of another user than the provider's.
    let refused = [
        "--yes",
        "--without-kubeconfig",
        "--provider-user=4711",
        "--timeout=3s",
    ];
    let refused = sweep(&stage, &uid, &refused).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(
        (balancers(&stage).await, stage.mock.routes().await.len()),
        before
    );

    // A cluster that lives says nothing of one that is gone.
    let kubeconfig = format!("--kubeconfig={}", other_path.display());
    let named = "--lease=kube-system/cloud-controller-manager";
    let swept = sweep(&stage, ANOTHER, &["--yes", &kubeconfig, named]).await;
    assert!(swept.out.contains("lb-other"), "{swept:?}");
    let left = balancers(&stage).await;
    assert!(!left.contains(&"lb-other".to_owned()), "{left:?}");
    assert_eq!(left.len(), before.0.len() - 1);
}

#[tokio::test]
async fn a_sweep_shows_what_became_of_each_object_also_when_it_is_interrupted() {
    let (stage, uid) = used().await;
    let listed = sweep(&stage, &uid, &["-o", "json"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let shown: Value = serde_json::from_str(&listed.out).unwrap();
    let objects = shown["objects"].as_array().unwrap();
    let owners: Vec<_> = objects
        .iter()
        .map(|it| it["for"].as_str().unwrap())
        .collect();
    for owner in ["default/web", "default/api", "default/db", "worker"] {
        assert!(owners.contains(&owner), "{listed:?}");
    }
    assert_eq!(objects.len(), 4, "{listed:?}");
    assert_eq!(balancers(&stage).await.len(), 5);

    let hang = Effect::Hang { duration: None };
    let hang = about(Method::DeleteLoadBalancer, "db", hang);
    stage.mock.inject(hang).await;
    let deletes = ["--yes", "--without-kubeconfig"];
    let mut interrupted = command(&stage, &uid, &deletes);
    let interrupted = interrupted.stdout(Stdio::piped()).stderr(Stdio::null());
    let interrupted = interrupted.spawn().unwrap();
    until("the others are gone", async || {
        let have = balancers(&stage).await.len();
        holds(have == 3, || format!("{have}"))
    })
    .await;
    let process = Pid::from_raw(interrupted.id().unwrap() as i32).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    let ended = interrupted.wait_with_output().await.unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{out}");
    assert!(out.contains("it was interrupted"), "{out}");
    let of_db = out.lines().find(|line| line.contains("default/db"));
    assert!(of_db.is_some_and(|line| line.contains("begun")), "{out}");

    stage.mock.clear().await;
    let swept = sweep(&stage, &uid, &deletes).await;
    assert_eq!(swept.code, Some(0), "{swept:?}");
    assert!(swept.out.contains("1 objects deleted, 0 left"), "{swept:?}");
    assert_eq!(balancers(&stage).await, ["lb-other", "lb-untagged"]);
    assert!(stage.mock.routes().await.is_empty());
}
