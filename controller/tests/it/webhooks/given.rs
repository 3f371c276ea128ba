//! A configuration that an operator applies, and a certificate in files.

use std::{fs, path::Path};

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig},
};
use kube::api::PostParams;
use serde_json::Value;

use super::{Made, configurations, made, serving_flags, try_creating};
use crate::{
    caller::Port,
    stage::Setup,
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

fn write(dir: &Path, made: &Made) {
    fs::write(dir.join("tls.crt"), &made.certificate).unwrap();
    fs::write(dir.join("tls.key"), &made.key).unwrap();
}

/// The controller reads the files again once a minute.
#[tokio::test]
async fn a_certificate_for_another_name_is_refused_until_its_files_are_replaced() {
    let port = Port::reserve();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (wrong, right) = (made(&["other.example"]), made(&["localhost"]));
    write(dir.path(), &wrong);
    let mut flags = serving_flags(&port);
    flags.retain(|flag| !flag.starts_with("--register") && !flag.starts_with("--webhook-url"));
    flags.push(format!("--webhook-tls-cert-file={}", file("tls.crt")));
    flags.push(format!(
        "--webhook-tls-private-key-file={}",
        file("tls.key")
    ));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let stage = Setup::mock(&[]).flags(&flags).start().await;

    let mut configuration = documented();
    configuration.webhooks.as_mut().unwrap()[0].client_config = WebhookClientConfig {
        ca_bundle: Some(ByteString(format!("{}{}", wrong.ca, right.ca).into())),
        url: Some(format!(
            "https://localhost:{}/persistentvolume-labels",
            port.number()
        )),
        service: None,
    };
    let (all, parameters) = (configurations(&stage), PostParams::default());
    all.create(&parameters, &configuration).await.unwrap();
    until("the API server refuses the certificate", async || {
        let error = try_creating(stage.admin(), "refused").await.err();
        let error = error.unwrap_or_default();
        let expected = "x509: certificate is valid for other.example, not localhost";
        holds(error.contains(expected), || error)
    })
    .await;
    write(dir.path(), &right);
    until("the next certificate is served", async || {
        try_creating(stage.admin(), "admitted").await
    })
    .await;
}
