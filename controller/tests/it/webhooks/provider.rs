//! The webhook `persistentvolume-labels` beside the mock: it answers, hangs, or is away.

use std::time::Duration;

use outrigger_provider_mock::{
    faults::{Effect, Fault, Method},
    volumes::VolumeState,
};
use serde_json::json;
use tokio::time::Instant;

use super::{Webhook, set_failure_policy};
use crate::{
    caller::{Port, value},
    cluster::volumes::{ZONE, csi, named, persistent_volume},
    look::{label, uid},
    rights::{Rights, VOLUMES},
    stage::{Setup, Stage},
    volumes::{is_labelled, serving},
    wait::{holds, until},
};

/// With a mock that has a disk for each source kind, and once the webhook labels.
async fn labelling(setup: Setup, webhook: &Webhook) -> Stage {
    let stage = webhook.stage(setup, |_| {}).await;
    stage.mock.set_each_kind().await;
    until("a volume is labelled", async || {
        let probe = stage.create_volume(persistent_volume(csi("csi"), json!({})));
        is_labelled(&probe.await?)
    })
    .await;
    stage
}

#[tokio::test]
async fn a_volume_of_each_kind_is_labelled_before_it_exists() {
    let webhook = Webhook::of_host("localhost");
    let stage = labelling(serving(&[]), &webhook).await;
    for volume in stage.create_each_kind().await {
        is_labelled(&volume).unwrap();
    }
    let mut wrong = persistent_volume(csi("csi"), named("wrong"));
    wrong["metadata"]["labels"] = json!({ZONE: "elsewhere"});
    let refused = stage.create_volume(wrong).await.unwrap_err();
    let expected =
        r#"label topology.kubernetes.io/zone is "elsewhere", but the volume is in "a__b""#;
    assert!(refused.contains(expected), "{refused}");
}

/// Volumes that are admitted while the webhook is away are labelled by the loop.
#[tokio::test]
async fn volumes_that_were_made_while_the_webhook_was_away_are_labelled_later() {
    let webhook = Webhook::of_host("localhost");
    let mut stage = labelling(serving(&[]), &webhook).await;
    stage.controller.terminate().await;
    let refused = stage.create_volume(persistent_volume(csi("csi"), json!({})));
    let refused = refused.await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");

    set_failure_policy(&stage, "Ignore").await;
    until("a volume is admitted", async || {
        let volume = persistent_volume(csi("csi"), named("first"));
        let volume = stage.create_volume(volume).await?;
        holds(label(&volume, ZONE).is_none(), || "labelled".to_owned())
    })
    .await;
    let made = stage.create_each_kind().await;
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

#[tokio::test]
async fn a_provider_that_hangs_leaves_volumes_to_the_failure_policy() {
    let (webhook, metrics) = (Webhook::of_host("localhost"), Port::reserve());
    let mut stage = labelling(serving(&[]).scraped_at(&metrics), &webhook).await;
    let for_30_s = Effect::Hang {
        duration: Some(Duration::from_secs(30)),
    };
    let hang = Fault::on(Method::GetVolume, for_30_s);
    stage.mock.inject(hang).await;
    let failures = async || {
        let series = r#"cloud_provider_webhook_request_total{code="500",webhook="persistentvolume-labels"} "#;
        let count = value(&metrics.scrape().await, series);
        count.unwrap_or_default() as u64
    };
    let create = async |name: &str| {
        let began = Instant::now();
        let volume = persistent_volume(csi("csi"), named(name));
        let created = stage.create_volume(volume).await;
        // The webhook's own answer, before the API server stops waiting after 5 s; the machine may be busy.
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        created
    };
    let before = failures().await;
    let error = create("refused").await.unwrap_err();
    assert!(error.contains("no decision within 4500 ms"), "{error}");
    assert_eq!(failures().await, before + 1);

    set_failure_policy(&stage, "Ignore").await;
    until("a volume is admitted without labels", async || {
        let before = failures().await;
        let volume = create("admitted").await?;
        assert_eq!(failures().await, before + 1);
        holds(label(&volume, ZONE).is_none(), || "labelled".to_owned())
    })
    .await;

    stage.mock.clear().await;
    is_labelled(&create("labelled").await.unwrap()).unwrap();

    // Away: at once.
    stage.mock.kill().await;
    set_failure_policy(&stage, "Fail").await;
    until("the provider is known to be away", async || {
        let volume = persistent_volume(csi("csi"), json!({}));
        let error = stage.create_volume(volume).await.err();
        let error = error.unwrap_or_default();
        holds(error.contains("the provider does not serve"), || error)
    })
    .await;
    // Back again.
    stage.restart_mock().await;
    stage.mock.set_volume("csi", VolumeState::Available).await;
    until("a volume is labelled", async || {
        let volume = persistent_volume(csi("csi"), json!({}));
        is_labelled(&stage.create_volume(volume).await?)
    })
    .await;
}
