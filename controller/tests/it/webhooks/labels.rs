//! The webhook `persistentvolume-labels` (P-20 to P-32).

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{Patch, PatchParams, PostParams};
use outrigger_api::v1::{self, volume_result::Outcome};
use prost::Message;
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{NAME, configurations, registered, volumes};
use crate::{
    caller::Port,
    scripted::volumes::{DRIVER, Storing},
    stage::{Setup, Stage},
    wait::{holds, until},
};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// The answer about a handle.
fn cloud(handle: &str) -> Outcome {
    let in_zones = |zones: &str| {
        let labels = [(ZONE, zones), (REGION, "north")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Outcome::Found(v1::VolumeTopology {
            labels: labels.into(),
            node_terms: Vec::new(),
        })
    };
    let reason = || "asked for by the test".to_owned();
    match handle {
        "absent" => Outcome::Absent(v1::VolumeAbsent { reason: reason() }),
        "foreign" => Outcome::NotManaged(v1::VolumeNotManaged { reason: reason() }),
        "malformed" => error(Code::InvalidArgument, "MALFORMED_VOLUME_HANDLE"),
        "failing" => error(Code::Internal, "CLOUD_ERROR"),
        "two-zones" => in_zones("b__a"),
        _ => in_zones("a"),
    }
}

fn error(code: Code, reason: &str) -> Outcome {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, outrigger_api::ERROR_DOMAIN, []);
    let status = Status::with_error_details(code, "the cloud's words", details);
    Outcome::Error(Message::decode(status.details()).unwrap())
}

async fn stage() -> (Stage, Storing) {
    let port = Port::reserve();
    let mut provider = None;
    let stage = registered(Setup::without_provider(), &port, |dir| {
        provider = Some(Storing::serve(dir, cloud));
    })
    .await;
    (stage, provider.unwrap())
}

/// Creates a volume of the driver with this handle, changed by a merge.
async fn create(stage: &Stage, handle: &str, more: Value) -> Result<PersistentVolume, String> {
    let mut object = json!({
        "metadata": {"generateName": "pv-"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": handle},
        },
    });
    merge(&mut object, more);
    let object = serde_json::from_value(object).unwrap();
    let created = volumes(stage).create(&PostParams::default(), &object).await;
    created.map_err(|error| error.to_string())
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

/// The provider has shaken hands.
async fn served(stage: &Stage) {
    until("a volume is admitted", async || {
        create(stage, "foreign", json!({})).await.map(drop)
    })
    .await;
}

fn label<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

fn terms(volume: &PersistentVolume) -> Value {
    let spec = volume.spec.as_ref().unwrap();
    let affinity = spec.node_affinity.as_ref();
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    json!(required.map(|required| &required.node_selector_terms))
}

#[tokio::test]
async fn volumes_get_labels_and_affinity_before_they_exist() {
    let (stage, provider) = stage().await;
    served(&stage).await;
    let one = create(&stage, "disk", json!({})).await.unwrap();
    assert_eq!(
        (label(&one, ZONE), label(&one, REGION)),
        (Some("a"), Some("north"))
    );
    let within =
        |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let expected =
        json!([{"matchExpressions": [within(REGION, &["north"]), within(ZONE, &["a"])]}]);
    assert_eq!(terms(&one), expected);

    // P-22, P-30.
    let in_tree = json!({"spec": {
        "csi": null,
        "awsElasticBlockStore": {"volumeID": "two-zones"},
    }});
    let two = create(&stage, "", in_tree).await.unwrap();
    assert_eq!(label(&two, ZONE), Some("b__a"));
    assert_eq!(
        terms(&two)[0]["matchExpressions"][1],
        within(ZONE, &["a", "b"])
    );

    // P-25: a label of the volume's own stays, and agrees.
    let own = json!({"metadata": {"labels": {ZONE: "a", "app": "db"}}});
    let own = create(&stage, "disk", own).await.unwrap();
    assert_eq!(
        (label(&own, "app"), label(&own, REGION)),
        (Some("db"), Some("north"))
    );

    // P-22: of another driver; P-23: not made yet.
    let asked = provider.asked();
    let other = json!({"spec": {"csi": {"driver": "other.example.org"}}});
    assert_eq!(
        label(&create(&stage, "disk", other).await.unwrap(), ZONE),
        None
    );
    let early = create(&stage, "placeholder-for-provisioning", json!({})).await;
    assert_eq!(label(&early.unwrap(), ZONE), None);
    assert_eq!(provider.asked(), asked);
}

#[tokio::test]
async fn volumes_that_cannot_be_right_are_refused_with_a_sentence() {
    let (stage, _provider) = stage().await;
    served(&stage).await;
    let wrong = json!({"metadata": {"labels": {ZONE: "b"}}});
    for (handle, more, expected) in [
        (
            "disk",
            wrong,
            "label topology.kubernetes.io/zone is \"b\", but the volume is in \"a\" in the cloud",
        ),
        (
            "absent",
            json!({}),
            "there is no volume \"absent\" in the cloud: asked for by the test",
        ),
        ("malformed", json!({}), "MALFORMED_VOLUME_HANDLE"),
    ] {
        let error = create(&stage, handle, more).await.unwrap_err();
        let denied =
            "admission webhook \"persistentvolume-labels.outrigger.dev\" denied the request";
        assert!(
            error.contains(denied) && error.contains(expected),
            "{error}"
        );
    }
    // Anything else is for failurePolicy.
    let error = create(&stage, "failing", json!({})).await.unwrap_err();
    assert!(error.contains("failed calling webhook"), "{error}");
    assert!(error.contains("the cloud's words"), "{error}");
}

#[tokio::test]
async fn a_provider_that_hangs_leaves_the_volume_to_the_failure_policy() {
    let (stage, provider) = stage().await;
    served(&stage).await;
    provider.answers_after(Duration::from_secs(30));
    let began = Instant::now();
    let error = create(&stage, "disk", json!({})).await.unwrap_err();
    let took = began.elapsed();
    // The webhook's own answer, before the API server stops waiting after 5 s.
    assert!(error.contains("no decision within 4500 ms"), "{error}");
    assert!(took < Duration::from_secs(20), "{took:?}");

    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let ignore = Patch::<()>::Json(serde_json::from_value(ignore).unwrap());
    let all = configurations(&stage);
    all.patch(NAME, &PatchParams::default(), &ignore)
        .await
        .unwrap();
    until("the volume is created without labels", async || {
        let volume = create(&stage, "disk", json!({})).await?;
        holds(label(&volume, ZONE).is_none(), || "labelled".to_owned())
    })
    .await;
    provider.answers_after(Duration::ZERO);
    let volume = create(&stage, "disk", json!({})).await.unwrap();
    assert_eq!(label(&volume, ZONE), Some("a"));

    // Away: at once.
    drop(provider);
    let change = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]);
    let fail = Patch::<()>::Json(serde_json::from_value(change).unwrap());
    all.patch(NAME, &PatchParams::default(), &fail)
        .await
        .unwrap();
    until("the provider is known to be away", async || {
        let error = create(&stage, "disk", json!({})).await.err();
        let error = error.unwrap_or_default();
        holds(error.contains("the provider does not serve"), || error)
    })
    .await;
}
