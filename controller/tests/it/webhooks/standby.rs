//! W-3: a standby serves the webhook.

use outrigger_provider_mock::volumes::VolumeState;
use serde_json::json;

use super::Webhook;
use crate::{
    cluster::volumes::{DRIVER, csi, persistent_volume},
    stage::Setup,
    volumes::is_labelled,
    wait::until,
};

#[tokio::test]
async fn a_standby_answers_with_a_provider_of_its_own() {
    let cluster = Setup::without_provider().prepare().await;
    let mut leader = cluster.replica("leader").await;
    leader.leads().await;
    let webhook = Webhook::of_host("localhost");
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
