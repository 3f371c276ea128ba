//! Admission webhooks as a real API server calls them (W-2 to W-10).

mod given;
mod labels;
mod provider;
mod standby;

use std::{path::Path, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::MutatingWebhookConfiguration,
        core::v1::{PersistentVolume, Secret},
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Port,
    cluster::{
        Cluster, SYSTEM,
        volumes::{csi, named, persistent_volume},
    },
    rights::{REGISTRATION, Rights, WEBHOOKS},
    stage::{Setup, Stage},
    wait::{holds, until},
};

const NAME: &str = "cloud-controller-manager-webhook";

fn configurations(cluster: &Cluster) -> Api<MutatingWebhookConfiguration> {
    Api::all(cluster.admin())
}

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.admin(), SYSTEM)
}

/// Changes the first webhook of the configuration by a JSON Patch below it, as an operator does.
async fn change_webhook(cluster: &Cluster, operations: &[Value]) {
    let below = |operation: &Value| {
        let mut operation = operation.clone();
        let path = operation["path"].as_str().unwrap();
        operation["path"] = format!("/webhooks/0/{path}").into();
        operation
    };
    let operations: Value = operations.iter().map(below).collect();
    let change = Patch::<()>::Json(serde_json::from_value(operations).unwrap());
    let (all, parameters) = (configurations(cluster), PatchParams::default());
    all.patch(NAME, &parameters, &change).await.unwrap();
}

async fn set_failure_policy(cluster: &Cluster, policy: &str) {
    let change = json!({"op": "replace", "path": "failurePolicy", "value": policy});
    change_webhook(cluster, &[change]).await;
}

/// The webhook is served at `port`, and registered.
fn serving_flags(port: &Port) -> Vec<String> {
    let [_, _, sharing] = port.flags();
    let number = port.number();
    vec![
        "--webhooks=persistentvolume-labels".to_owned(),
        "--register-webhooks".to_owned(),
        "--webhook-bind-address=127.0.0.1".to_owned(),
        format!("--webhook-secure-port={number}"),
        sharing,
        format!("--webhook-url=https://127.0.0.1:{number}"),
    ]
}

/// A stage with the webhook registered; `provide` may serve in its directory before the controller starts.
async fn registered(setup: Setup, port: &Port, provide: impl FnOnce(&Path)) -> Stage {
    let flags = serving_flags(port);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let stage = setup.flags(&flags).prepare().await;
    for part in [WEBHOOKS, REGISTRATION] {
        Rights::documented(part).grant(&stage.plane).await;
    }
    provide(stage.dir());
    let stage = stage.start();
    until("the webhook is registered", async || {
        let configuration = configurations(&stage).get_opt(NAME).await.unwrap();
        holds(configuration.is_some(), || "it is not".to_owned())
    })
    .await;
    stage
}

/// Creates it in a dry run, which asks the webhook all the same.
async fn try_creating(client: Client, name: &str) -> Result<(), String> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let volume = persistent_volume(csi("vol-1"), named(name));
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    let volumes = Api::all(client);
    let created = volumes.create(&parameters, &volume).await;
    created.map(drop).map_err(|error| error.to_string())
}

/// A certificate as the controller makes them, and its CA.
struct Made {
    ca: String,
    certificate: String,
    key: String,
}

fn made(names: &[&str]) -> Made {
    made_before(names, Duration::ZERO)
}

/// Made so long ago.
fn made_before(names: &[&str], ago: Duration) -> Made {
    let now = jiff::Timestamp::now().as_second() as u64;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let begin = epoch + Duration::from_secs(now - 3600) - ago;
    let end = begin + Duration::from_hours(365 * 24);
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "next");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (authority.not_before, authority.not_after) = (begin, end);
    let key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    (params.not_before, params.not_after) = (begin, end);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    Made {
        ca,
        certificate,
        key: key.serialize_pem(),
    }
}

/// Changes texts of the Secret; none removes one.
async fn change_secret(stage: &Stage, texts: &[(&str, Option<&str>)]) {
    let bytes = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let texts = texts
        .iter()
        .map(|(key, text)| ((*key).to_owned(), json!(text.map(bytes))));
    let data: serde_json::Map<_, _> = texts.collect();
    let patch = Patch::Merge(json!({"data": data}));
    let secrets = secrets(stage);
    secrets
        .patch(NAME, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn text(stage: &Stage, key: &str) -> String {
    let secret = secrets(stage).get(NAME).await.unwrap();
    let data = secret.data.unwrap_or_default();
    let bytes = data.get(key).map(|bytes| bytes.0.clone());
    String::from_utf8(bytes.unwrap_or_default()).unwrap()
}

/// Waits until the API server trusts the CAs of the Secret, and no others.
async fn trusted(stage: &Stage) {
    until("the API server trusts the CAs", async || {
        let configuration = configurations(stage).get(NAME).await.unwrap();
        let webhooks = configuration.webhooks.unwrap();
        let bundle = webhooks[0].client_config.ca_bundle.clone().unwrap();
        let expected = text(stage, "ca.crt").await;
        holds(bundle.0 == expected.as_bytes(), || "it does not".to_owned())
    })
    .await;
}

/// By the controller's own hand-over; one in files is its operator's.
#[tokio::test]
async fn a_certificate_that_is_renewed_under_load_costs_no_admission() {
    let port = Port::reserve();
    let stage = registered(Setup::mock(&[]), &port, |_| {}).await;
    until("a volume is admitted", async || {
        try_creating(stage.admin(), "first").await
    })
    .await;

    let stop = CancellationToken::new();
    let mut load = JoinSet::new();
    for n in 0..4 {
        let (client, stop) = (stage.admin(), stop.clone());
        load.spawn(async move {
            let mut count = 0;
            while !stop.is_cancelled() {
                let created = try_creating(client.clone(), &format!("load-{n}")).await;
                created.unwrap_or_else(|error| panic!("admission {count}: {error}"));
                count += 1;
            }
            count
        });
    }
    let service = format!("{NAME}.{SYSTEM}.svc");
    let next = made_before(&[&service, "127.0.0.1"], Duration::from_mins(6));
    let former = text(&stage, "ca.crt").await;
    let both = format!("{former}{}", next.ca);
    change_secret(
        &stage,
        &[
            ("ca.crt", Some(&both)),
            ("next.crt", Some(&next.certificate)),
            ("next.key", Some(&next.key)),
        ],
    )
    .await;
    until("the next certificate is served", async || {
        let current = text(&stage, "tls.crt").await;
        holds(current == next.certificate, || "it is not".to_owned())
    })
    .await;
    trusted(&stage).await;
    // The API server makes new connections with other CAs.
    change_secret(&stage, &[("ca.crt", Some(&next.ca))]).await;
    trusted(&stage).await;
    for _ in 0..20 {
        try_creating(stage.admin(), "last").await.unwrap();
    }
    stop.cancel();
    let mut total = 0;
    while let Some(count) = load.join_next().await {
        total += count.unwrap();
    }
    assert!(total > 20, "{total} admissions");
}

/// W-10: the operator's changes stay.
#[tokio::test]
async fn a_configuration_that_an_operator_changed_is_kept() {
    let port = Port::reserve();
    let stage = registered(Setup::mock(&[]), &port, |_| {}).await;
    let change = [
        json!({"op": "replace", "path": "failurePolicy", "value": "Ignore"}),
        json!({"op": "remove", "path": "clientConfig/caBundle"}),
    ];
    change_webhook(&stage, &change).await;
    until("the CA is there again", async || {
        let configuration = configurations(&stage).get(NAME).await.unwrap();
        let webhook = &configuration.webhooks.unwrap()[0];
        assert_eq!(webhook.failure_policy.as_deref(), Some("Ignore"));
        holds(webhook.client_config.ca_bundle.is_some(), || {
            "it is not".to_owned()
        })
    })
    .await;
    try_creating(stage.admin(), "ignored").await.unwrap();
}
