//! The admission webhook persistentvolume-labels as a real API server calls it (P-20 to P-32, W-2 to W-9).

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use outrigger_provider_mock::volumes::VolumeState;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    caller::Port,
    cluster::Cluster,
    look::{label, uid},
    rights::{Rights, VOLUMES},
    stage::Setup,
    volumes::{DRIVER, ZONE, csi, is_labelled, named, persistent_volume, serving},
    wait::{holds, until},
};

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
    ca: String,
}

impl Webhook {
    fn new() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let webhook = Self {
            port: Port::reserve(),
            dir: tempfile::tempdir().unwrap(),
            ca: authority.self_signed(&key).unwrap().pem(),
        };
        let issuer = Issuer::new(authority, key);
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(webhook.file("tls.crt"), certificate.pem()).unwrap();
        fs::write(webhook.file("tls.key"), key.serialize_pem()).unwrap();
        webhook
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
        let all: Api<MutatingWebhookConfiguration> = Api::all(cluster.admin());
        let parameters = PostParams::default();
        all.create(&parameters, &configuration).await.unwrap();
    }
}

#[tokio::test]
async fn volumes_are_labelled_before_they_exist_or_later_if_the_webhook_was_away() {
    let webhook = Webhook::new();
    let flags = webhook.flags();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let mut stage = serving().flags(&flags).start().await;
    webhook.register(&stage).await;
    stage.mock.set_each_kind().await;
    until("a volume is labelled", async || {
        let probe = stage.create_volume(persistent_volume(csi("csi"), json!({})));
        is_labelled(&probe.await?)
    })
    .await;
    for volume in stage.create_each_kind("").await {
        is_labelled(&volume).unwrap();
    }
    let mut wrong = persistent_volume(csi("csi"), named("wrong"));
    wrong["metadata"]["labels"] = json!({ZONE: "elsewhere"});
    let refused = stage.create_volume(wrong).await.unwrap_err();
    let expected =
        r#"label topology.kubernetes.io/zone is "elsewhere", but the volume is in "a__b""#;
    assert!(refused.contains(expected), "{refused}");

    stage.controller.terminate().await;
    let refused = stage.create_volume(persistent_volume(csi("csi"), json!({})));
    let refused = refused.await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    let change = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let change = Patch::<()>::Json(serde_json::from_value(change).unwrap());
    let all: Api<MutatingWebhookConfiguration> = Api::all(stage.admin());
    let name = "cloud-controller-manager-webhook";
    all.patch(name, &PatchParams::default(), &change)
        .await
        .unwrap();
    until("a volume is admitted", async || {
        let volume = persistent_volume(csi("csi"), json!({}));
        let volume = stage.create_volume(volume).await?;
        holds(label(&volume, ZONE).is_none(), || "labelled".to_owned())
    })
    .await;
    let made = stage.create_each_kind("late-").await;
    assert!(made.iter().all(|volume| label(volume, ZONE).is_none()));
    Rights::documented(VOLUMES).grant(&stage.plane).await;
    stage.start_controller_with(&["--controllers=*,persistentvolume-labels"]);
    for before in made {
        let name = before.metadata.name.as_deref().unwrap();
        until(&format!("{name} is labelled"), async || {
            let volume = stage.volume(name).await;
            assert_eq!(uid(&volume), uid(&before));
            is_labelled(&volume)
        })
        .await;
    }
}

/// W-3.
#[tokio::test]
async fn a_standby_answers_with_a_provider_of_its_own() {
    let cluster = Setup::without_provider().prepare().await;
    let mut leader = cluster.replica("leader").await;
    leader.leads().await;
    let webhook = Webhook::new();
    webhook.register(&cluster).await;
    let mut standby = cluster.part("standby").without_provider();
    for flag in webhook.flags() {
        standby = standby.flag(&flag);
    }
    let mut standby = standby.start().await;
    let driver = format!("--csi-driver={DRIVER}");
    standby.mock.start(&[driver]).await;
    standby
        .mock
        .set_volume("disk", VolumeState::Available)
        .await;
    standby.follows(&mut leader).await;
    until("a volume is labelled", async || {
        let volume = persistent_volume(csi("disk"), json!({}));
        is_labelled(&cluster.create_volume(volume).await?)
    })
    .await;
    standby.was_allowed_everything();
    // It led at no time.
    standby.follows(&mut leader).await;
    assert_eq!(standby.controller.lines("successfully acquired lease"), 0);
}
