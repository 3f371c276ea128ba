//! Admission webhooks as a real API server calls them (W-2 to W-9).

mod labels;
mod provider;
mod standby;

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig},
        core::v1::PersistentVolume,
    },
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    caller::Port,
    cluster::{
        Cluster,
        volumes::{csi, named, persistent_volume},
    },
    stage::{Setup, Stage},
    wait::{holds, until},
};

const NAME: &str = "cloud-controller-manager-webhook";

fn configurations(cluster: &Cluster) -> Api<MutatingWebhookConfiguration> {
    Api::all(cluster.admin())
}

/// The configuration that `docs/volumes.md` prints.
fn documented() -> MutatingWebhookConfiguration {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/volumes.md");
    let page = fs::read_to_string(page).unwrap();
    let fences = page.split("\n```yaml\n").skip(1);
    let objects = fences.flat_map(|fence| {
        let yaml = fence.split("\n```").next().unwrap();
        serde_saphyr::from_multiple::<Value>(yaml).unwrap()
    });
    let mut objects = objects.filter(|object| object["kind"] == "MutatingWebhookConfiguration");
    serde_json::from_value(objects.next().unwrap()).unwrap()
}

/// The port of a webhook, and its certificate in files.
struct Webhook {
    port: Port,
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    ca: String,
}

impl Webhook {
    /// With a certificate for `host`.
    fn of_host(host: &str) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let webhook = Self {
            port: Port::reserve(),
            dir: tempfile::tempdir().unwrap(),
            ca: authority.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(authority, key),
        };
        webhook.renew_for(host);
        webhook
    }

    /// Replaces the files.
    fn renew_for(&self, host: &str) {
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file("tls.crt"), certificate.pem()).unwrap();
        fs::write(self.file("tls.key"), key.serialize_pem()).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn flags(&self) -> Vec<String> {
        let [_, _, sharing] = self.port.flags();
        let file = |name| self.file(name).display().to_string();
        vec![
            "--webhooks=persistentvolume-labels".to_owned(),
            "--webhook-bind-address=127.0.0.1".to_owned(),
            format!("--webhook-secure-port={}", self.port.number()),
            sharing,
            format!("--webhook-tls-cert-file={}", file("tls.crt")),
            format!("--webhook-tls-private-key-file={}", file("tls.key")),
        ]
    }

    /// Makes it known to the API server, as an operator does.
    async fn register(&self, cluster: &Cluster) {
        let mut configuration = documented();
        configuration.webhooks.as_mut().unwrap()[0].client_config = WebhookClientConfig {
            ca_bundle: Some(ByteString(self.ca.clone().into())),
            url: Some(format!(
                "https://localhost:{}/persistentvolume-labels",
                self.port.number()
            )),
            service: None,
        };
        let (all, parameters) = (configurations(cluster), PostParams::default());
        all.create(&parameters, &configuration).await.unwrap();
    }

    /// A stage with the webhook registered; `provide` may serve in its directory before the controller starts.
    async fn stage(&self, setup: Setup, provide: impl FnOnce(&Path)) -> Stage {
        let flags = self.flags();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let stage = setup.flags(&flags).prepare().await;
        self.register(&stage).await;
        provide(stage.dir());
        stage.start()
    }
}

async fn set_failure_policy(cluster: &Cluster, policy: &str) {
    let change = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy}]);
    let change = Patch::<()>::Json(serde_json::from_value(change).unwrap());
    let (all, parameters) = (configurations(cluster), PatchParams::default());
    all.patch(NAME, &parameters, &change).await.unwrap();
}

/// Creates it in a dry run, which asks the webhook all the same.
async fn try_creating(cluster: &Cluster, name: &str) -> Result<(), String> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let volume = persistent_volume(csi("vol-1"), named(name));
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    let volumes = Api::all(cluster.admin());
    let created = volumes.create(&parameters, &volume).await;
    created.map(drop).map_err(|error| error.to_string())
}

/// The controller reads the files again once a minute.
#[tokio::test]
async fn a_certificate_for_another_name_is_refused_until_its_files_are_replaced() {
    let webhook = Webhook::of_host("other.example");
    let stage = webhook.stage(Setup::mock(&[]), |_| {}).await;
    until("the API server refuses the certificate", async || {
        let error = try_creating(&stage, "refused").await.err();
        let error = error.unwrap_or_default();
        let expected = "x509: certificate is valid for other.example, not localhost";
        holds(error.contains(expected), || error)
    })
    .await;
    webhook.renew_for("localhost");
    until("the next certificate is served", async || {
        try_creating(&stage, "admitted").await
    })
    .await;
}
