//! The webhook `persistentvolume-labels` (P-20 to P-32).

use k8s_openapi::api::core::v1::PersistentVolume;
use outrigger_api::v1::{self, get_volume_response::Outcome};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::Webhook;
use crate::{
    cluster::volumes::{REGION, ZONE, csi, node_terms, persistent_volume, within},
    look::label,
    scripted::volumes::Storing,
    stage::{Setup, Stage},
    wait::until,
};

/// The answer about a handle.
fn cloud(handle: &str) -> Result<Outcome, Status> {
    let in_zones = |zones: &str| {
        let labels = [(ZONE, zones), (REGION, "north")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Outcome::Found(v1::VolumeTopology {
            labels: labels.into(),
            node_terms: Vec::new(),
        })
    };
    let reason = || "asked for by the test".to_owned();
    Ok(match handle {
        "absent" => Outcome::Absent(v1::Absent {
            certainty: v1::AbsenceCertainty::Confirmed.into(),
            reason: reason(),
            ..v1::Absent::default()
        }),
        "foreign" => Outcome::NotManaged(v1::NotManaged { reason: reason() }),
        "malformed" => return Err(error(Code::InvalidArgument, "MALFORMED_VOLUME_HANDLE")),
        "failing" => return Err(error(Code::Internal, "CLOUD_ERROR")),
        "two-zones" => in_zones("b__a"),
        _ => in_zones("a"),
    })
}

fn error(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, outrigger_api::ERROR_DOMAIN, []);
    Status::with_error_details(code, "the cloud's words", details)
}

async fn stage() -> (Webhook, Stage, Storing) {
    let webhook = Webhook::of_host("localhost");
    let mut provider = None;
    let stage = webhook.stage(Setup::without_provider(), |dir| {
        provider = Some(Storing::serve(dir, cloud));
    });
    let stage = stage.await;
    (webhook, stage, provider.unwrap())
}

/// Creates a volume of the driver with this handle, changed by a merge.
async fn create(stage: &Stage, handle: &str, more: Value) -> Result<PersistentVolume, String> {
    let volume = persistent_volume(csi(handle), more);
    stage.create_volume(volume).await
}

/// The provider has shaken hands.
async fn served(stage: &Stage) {
    until("a volume is admitted", async || {
        create(stage, "foreign", json!({})).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn volumes_get_labels_and_affinity_before_they_exist() {
    let (_webhook, stage, provider) = stage().await;
    served(&stage).await;
    let one = create(&stage, "disk", json!({})).await.unwrap();
    assert_eq!(
        (label(&one, ZONE), label(&one, REGION)),
        (Some("a"), Some("north"))
    );
    let expected =
        json!([{"matchExpressions": [within(REGION, &["north"]), within(ZONE, &["a"])]}]);
    assert_eq!(node_terms(&one), expected);

    // P-22, P-30.
    let in_tree = json!({"spec": {
        "csi": null,
        "awsElasticBlockStore": {"volumeID": "two-zones"},
    }});
    let two = create(&stage, "", in_tree).await.unwrap();
    assert_eq!(label(&two, ZONE), Some("b__a"));
    assert_eq!(
        node_terms(&two)[0]["matchExpressions"][1],
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
    let questions = provider.asked();
    let other = json!({"spec": {"csi": {"driver": "other.example.org"}}});
    assert_eq!(
        label(&create(&stage, "disk", other).await.unwrap(), ZONE),
        None
    );
    let early = create(&stage, "placeholder-for-provisioning", json!({})).await;
    assert_eq!(label(&early.unwrap(), ZONE), None);
    assert_eq!(provider.asked(), questions);
}

#[tokio::test]
async fn volumes_that_cannot_be_right_are_refused_with_a_sentence() {
    let (_webhook, stage, _provider) = stage().await;
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
