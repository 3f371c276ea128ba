//! A hosted control plane: the controller runs beside another API server than the one that it serves, with the kubeconfig
//! of a Secret there, which is rotated.

use std::{fs, path::Path};

use k8s_openapi::{
    ByteString,
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Secret},
    },
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use outrigger_testbed::{ControlPlane, Options, nodes::Machine};
use serde_json::{Value, json};

use crate::{
    cluster::{SYSTEM, services::load_balancer},
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::{Setup, Stage},
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

/// A Node that registers now is initialised.
async fn works(stage: &Stage, name: &str) {
    stage.register(&Machine::new(name)).await;
    stage.synced(name).await;
}

#[tokio::test]
async fn a_kubeconfig_in_another_clusters_secret_is_rotated_without_a_restart() {
    let served = Setup::synthesizing().flags(&PATIENT).prepare().await;
    let user = "hosted";
    let path = served.plane.kubeconfig(user, None).unwrap();
    let with_certificate = fs::read_to_string(path).unwrap();
    let account = "hosted-account";
    let token = served.account(account).await;
    let of_account = format!("system:serviceaccount:default:{account}");
    let rights = |user: &str| Rights::documented(ALWAYS).of(user);
    for user in [user, &of_account] {
        rights(user).grant(&served.plane).await;
    }
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_saphyr::from_str(&with_certificate).unwrap();
        edit(&mut file);
        file.to_string()
    };
    let with_token = edited(&|file| file["users"][0]["user"] = json!({"token": token}));

    // The CA is not yet that of the API server.
    let hosting = Hosting::start(&with_certificate).await;
    let of_hosting = hosting.plane.kubeconfig(user, None).unwrap();
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
    hosting.rotate(&with_certificate).await;
    hosting.mount(&volume).await;
    works(&stage, "with-certificate").await;

    // The file was cut short, as long as its former content serves.
    let half = &with_certificate[..with_certificate.len() / 2];
    hosting.rotate(half).await;
    hosting.mount(&volume).await;
    let used_on = ["the former credential is used on"];
    stage.controller.says(&used_on).await;
    works(&stage, "with-broken-file").await;

    // A token instead of the certificate, whose user loses its rights.
    hosting.rotate(&with_token).await;
    hosting.mount(&volume).await;
    rights(user).revoke(&stage.plane).await;
    works(&stage, "with-token").await;
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

/// Such as one that was made again under the name of the former, or a kubeconfig of the wrong one.
#[tokio::test]
async fn another_cluster_at_the_address_of_the_api_server_ends_the_process_and_loses_nothing() {
    // It has neither the Node nor the Service.
    let other = ControlPlane::start(Options::default()).await.unwrap();
    let mut stage = Setup::synthesizing().flags(&PATIENT).start().await;
    works(&stage, "worker").await;
    stage.create_service(load_balancer("web")).await;
    stage.served("web").await;
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
