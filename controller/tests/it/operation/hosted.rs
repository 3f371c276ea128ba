//! A hosted control plane: the controller runs beside another API server than the one that it serves, with the kubeconfig
//! of a Secret there, which is rotated.

use std::{fs, path::Path};

use k8s_openapi::{
    ByteString,
    api::{
        coordination::v1::Lease,
        core::v1::{Secret, ServiceAccount},
    },
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use outrigger_testbed::{ControlPlane, Options, nodes::Machine};
use serde_json::{Value, json};

use crate::{
    cluster::SYSTEM,
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::{Setup, Stage},
};

const SECRET: &str = "served-kubeconfig";

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
async fn works(stage: &mut Stage, name: &str) {
    stage.register(&Machine::new(name)).await;
    stage.synced(name).await;
}

#[tokio::test]
async fn a_kubeconfig_in_another_clusters_secret_is_rotated_without_a_restart() {
    let served = Setup::synthesizing()
        .flags(&[
            "--leader-elect=true",
            // The former credential is refused until the kubeconfig is read again.
            "--leader-elect-lease-duration=60s",
            "--leader-elect-renew-deadline=40s",
        ])
        .prepare()
        .await;
    let certificate = |user: &str| {
        let path = served.plane.kubeconfig(user, None).unwrap();
        fs::read_to_string(path).unwrap()
    };
    let (first, last) = ("hosted-first", "hosted-last");
    let (of_first, of_last) = (certificate(first), certificate(last));
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
    let of_hosting: Value =
        serde_saphyr::from_str(&fs::read_to_string(of_hosting).unwrap()).unwrap();
    let authority = &of_hosting["clusters"][0]["cluster"]["certificate-authority-data"];
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
    works(&mut stage, "with-certificate").await;

    // A token instead of the certificate, whose user loses its rights.
    hosting.rotate(&with_token).await;
    hosting.mount(&volume).await;
    rights(first).revoke(&stage.plane).await;
    works(&mut stage, "with-token").await;

    // Another certificate instead of the token, whose account goes.
    hosting.rotate(&of_last).await;
    hosting.mount(&volume).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.admin(), "default");
    accounts
        .delete(account, &DeleteParams::default())
        .await
        .unwrap();
    works(&mut stage, "with-another-certificate").await;
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
