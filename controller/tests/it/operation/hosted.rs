//! A hosted control plane: the controller runs beside another API server than the one that it serves, with the kubeconfig
//! of a Secret there, which is rotated.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Secret, Service, ServiceAccount},
    },
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use outrigger_testbed::{ControlPlane, Options, nodes::Machine};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    cluster::{SYSTEM, services::load_balancer},
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::{Setup, Stage},
    wait::{holds, until},
};

const SECRET: &str = "served-kubeconfig";

/// A credential may be refused until the kubeconfig is read again.
const PATIENT: [&str; 3] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=60s",
    "--leader-elect-renew-deadline=40s",
];

/// The cluster in which the controller's Pod would run.
struct Hosting {
    plane: ControlPlane,
    client: Client,
}

impl Hosting {
    async fn start(kubeconfig: &str) -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let client = plane.client().unwrap();
        let secret = json!({"metadata": {"name": SECRET}, "stringData": {"value": kubeconfig}});
        let secret = serde_json::from_value(secret).unwrap();
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
        Self { plane, client }
    }

    async fn rotate(&self, kubeconfig: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let change = Patch::Merge(json!({"stringData": {"value": kubeconfig}}));
        secrets
            .patch(SECRET, &PatchParams::default(), &change)
            .await
            .unwrap();
    }

    /// Writes the Secret below `volume` as a kubelet does: a folder of its own, and a link that leads to the newest.
    async fn mount(&self, volume: &Path) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let secret = secrets.get(SECRET).await.unwrap();
        let version = secret.metadata.resource_version.unwrap();
        let ByteString(kubeconfig) = &secret.data.unwrap()["value"];
        let (folder, link) = (volume.join(&version), volume.join("..data_tmp"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("value"), kubeconfig).unwrap();
        std::os::unix::fs::symlink(&version, &link).unwrap();
        fs::rename(&link, volume.join("..data")).unwrap();
        let value = volume.join("value");
        if !value.exists() {
            std::os::unix::fs::symlink("..data/value", &value).unwrap();
        }
    }
}

/// Three Services are there at a time, and each of them for less than a second, as long as this runs.
async fn churn(services: Api<Service>) {
    let (creation, deletion) = (PostParams::default(), DeleteParams::default());
    for number in 0.. {
        let name = |number: usize| format!("churn-{number}");
        let service = serde_json::from_value(load_balancer(&name(number))).unwrap();
        services.create(&creation, &service).await.unwrap();
        sleep(Duration::from_millis(300)).await;
        if let Some(former) = number.checked_sub(2) {
            let name = name(former);
            services.delete(&name, &deletion).await.unwrap();
        }
    }
}

/// A Node that registers now is initialised.
async fn works(stage: &Stage, name: &str) {
    stage.register(&Machine::new(name)).await;
    stage.synced(name).await;
}

#[tokio::test]
async fn a_kubeconfig_in_another_clusters_secret_is_rotated_without_a_restart() {
    let served = Setup::synthesizing().flags(&PATIENT).prepare().await;
    let certificate = |user: &str| {
        let path = served.plane.kubeconfig(user, None).unwrap();
        fs::read_to_string(path).unwrap()
    };
    let (first, last) = ("hosted-first", "hosted-last");
    let (of_first, of_last) = (certificate(first), certificate(last));
    let expired = served.plane.expired_kubeconfig(last).unwrap();
    let expired = fs::read_to_string(expired).unwrap();
    let account = "hosted-account";
    let token = served.account(account).await;
    let of_account = format!("system:serviceaccount:default:{account}");
    let rights = |user: &str| Rights::documented(ALWAYS).of(user);
    for user in [first, &of_account, last] {
        rights(user).grant(&served.plane).await;
    }
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_saphyr::from_str(&of_first).unwrap();
        edit(&mut file);
        file.to_string()
    };
    let with_token = edited(&|file| file["users"][0]["user"] = json!({"token": token}));

    // The CA is not yet that of the API server.
    let hosting = Hosting::start(&of_first).await;
    let of_hosting = hosting.plane.kubeconfig(first, None).unwrap();
    let of_hosting = fs::read_to_string(of_hosting).unwrap();
    let parsed: Value = serde_saphyr::from_str(&of_hosting).unwrap();
    let authority = &parsed["clusters"][0]["cluster"]["certificate-authority-data"];
    assert!(authority.is_string());
    let outdated = edited(&|file| {
        file["clusters"][0]["cluster"]["certificate-authority-data"] = authority.clone();
    });
    hosting.rotate(&outdated).await;
    let volume = served.dir().join("kubeconfig");
    fs::create_dir(&volume).unwrap();
    hosting.mount(&volume).await;
    let mut stage = served.start_with(&volume.join("value"));
    let process = stage.controller.pid();
    let refused = ["cannot use the API server", "invalid peer certificate"];
    stage.controller.says(&refused).await;
    hosting.rotate(&of_first).await;
    hosting.mount(&volume).await;
    works(&stage, "with-certificate").await;

    let services = stage.services();
    let rotations = async {
        // The file was cut short.
        hosting.rotate(&of_first[..of_first.len() / 2]).await;
        hosting.mount(&volume).await;
        let used_on = ["the former credential is used on"];
        stage.controller.says(&used_on).await;
        works(&stage, "with-broken-file").await;

        // A token instead of the certificate, whose user loses its rights.
        hosting.rotate(&with_token).await;
        hosting.mount(&volume).await;
        rights(first).revoke(&stage.plane).await;
        works(&stage, "with-token").await;

        // The kubeconfig of another cluster: its server is not followed, and its CA is not that of the server.
        hosting.rotate(&of_hosting).await;
        hosting.mount(&volume).await;
        let refused = ["lease cannot be reached", "invalid peer certificate"];
        stage.controller.says(&refused).await;

        // A certificate that has expired.
        hosting.rotate(&expired).await;
        hosting.mount(&volume).await;
        stage
            .controller
            .says(&["the client certificate expired on"])
            .await;

        // Another certificate instead of the token, whose account goes.
        hosting.rotate(&of_last).await;
        hosting.mount(&volume).await;
        let accounts: Api<ServiceAccount> = Api::namespaced(stage.admin(), "default");
        accounts
            .delete(account, &DeleteParams::default())
            .await
            .unwrap();
        works(&stage, "with-another-certificate").await;
    };
    tokio::select! {
        () = rotations => {}
        () = churn(services.clone()) => {}
    }
    let left = services.list(&ListParams::default()).await.unwrap();
    let left = left.items.into_iter().map(|service| service.metadata);
    let left: Vec<_> = left
        .filter(|metadata| metadata.deletion_timestamp.is_none())
        .filter_map(|metadata| metadata.name.filter(|name| name.starts_with("churn-")))
        .collect();
    assert!(!left.is_empty());
    for name in &left {
        stage.served(name).await;
    }
    until("no other Service has a load balancer", async || {
        let have = stage.mock.load_balancers().await.len();
        holds(have == left.len(), || format!("{have}, {left:?}"))
    })
    .await;
    assert_eq!(stage.controller.pid(), process);

    // All that it writes is in the cluster that it serves.
    let lease = stage.lease(LEASE).await;
    assert!(
        lease
            .holder_identity
            .is_some_and(|holder| !holder.is_empty())
    );
    let leases: Api<Lease> = Api::namespaced(hosting.client.clone(), SYSTEM);
    assert!(leases.get_opt(LEASE).await.unwrap().is_none());
    drop(hosting.plane);
}

/// The served cluster's administrator is a neighbour of the others in the account.
#[tokio::test]
async fn a_hosted_cluster_is_known_by_the_uid_that_the_hosting_side_chose() {
    let chosen = "0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10";
    let flag = format!("--cluster-uid={chosen}");
    let stage = Setup::synthesizing().flag(&flag).start().await;
    stage.create_service(load_balancer("web")).await;
    stage.served("web").await;
    let made = stage.mock.load_balancers().await;
    assert!(made.iter().all(|one| one.cluster == chosen), "{made:?}");
}

/// Such as one that was made again under the name of the former, or a kubeconfig of the wrong one.
#[tokio::test]
async fn another_cluster_at_the_address_of_the_api_server_ends_the_process_and_loses_nothing() {
    // It has neither the Node nor the Service.
    let other = ControlPlane::start(Options::default()).await.unwrap();
    let mut stage = Setup::synthesizing().flags(&PATIENT).start().await;
    works(&stage, "worker").await;
    stage.create_service(load_balancer("web")).await;
    until("the load balancer is made", async || {
        let have = stage.mock.load_balancers().await.len();
        holds(have == 1, || format!("{have}"))
    })
    .await;
    stage.proxy.lead_to(&other).unwrap();
    let status = stage.controller.ended().await;
    let log = stage.controller.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("is that of another cluster now"), "{log}");
    let balancers = stage.mock.load_balancers().await;
    assert!(
        balancers.len() == 1 && balancers[0].gone_at.is_none(),
        "{balancers:?}"
    );
    let nodes: Api<Node> = Api::all(other.client().unwrap());
    // Nor has it the Lease.
    let leases: Api<Lease> = Api::namespaced(other.client().unwrap(), SYSTEM);
    assert!(leases.get_opt(LEASE).await.unwrap().is_none());
    assert!(
        nodes
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}
