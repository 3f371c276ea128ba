//! The cost of a restart over volumes that are labelled.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::ListParams;
use outrigger_provider_mock::volumes::VolumeState;

use super::{is_labelled, prepare, serving};
use crate::{
    cluster::volumes::{csi, named, persistent_volume},
    stage::Stage,
    wait::{DEADLINE, holds, stays, until, until_within},
};

const VOLUMES: usize = 1_000;
/// How many of the volumes are in another account.
const FOREIGN: usize = 150;
/// The mock's largest batch.
const BATCH: usize = 100;

async fn labelled(stage: &Stage) -> usize {
    let all = stage.volumes().list(&ListParams::default()).await.unwrap();
    let is_labelled = |volume: &&PersistentVolume| is_labelled(volume).is_ok();
    all.items.iter().filter(is_labelled).count()
}

#[tokio::test]
async fn a_restart_asks_about_volumes_that_are_not_managed_and_writes_none() {
    let batch = format!("--volume-max-batch-size={BATCH}");
    let stage = prepare(serving(&[&batch])).await;
    stream::iter(0..VOLUMES)
        .for_each_concurrent(16, async |n| {
            let handle = format!("disk-{n}");
            let state = match n {
                ..FOREIGN => VolumeState::Foreign,
                _ => VolumeState::Available,
            };
            stage.mock.set_volume(&handle, state).await;
            let volume = persistent_volume(csi(&handle), named(&handle));
            stage.create_volume(volume).await.unwrap();
        })
        .await;
    let mut stage = stage.start();
    let deadline = DEADLINE + Duration::from_millis(100) * VOLUMES as u32;
    until_within("each is asked about", deadline, async || {
        let [_, asked] = stage.mock.volume_lookups().await;
        holds(asked == VOLUMES as u64, || asked.to_string())
    })
    .await;
    until_within("all are labelled", deadline, async || {
        let labelled = labelled(&stage).await;
        holds(labelled == VOLUMES - FOREIGN, || labelled.to_string())
    })
    .await;
    stage.controller.terminate().await;
    let [calls, asked] = stage.mock.volume_lookups().await;
    stage.proxy.take_requests();

    stage.start_controller();
    until("those of others were asked about", async || {
        let [_, now] = stage.mock.volume_lookups().await;
        holds(now == asked + FOREIGN as u64, || (now - asked).to_string())
    })
    .await;
    stays("nothing more is done", Duration::from_secs(2), async || {
        let [_, now] = stage.mock.volume_lookups().await;
        let writes = stage.writes();
        holds(writes.is_empty() && now == asked + FOREIGN as u64, || {
            format!("{} asked about, {writes:?}", now - asked)
        })
    })
    .await;
    let [now, _] = stage.mock.volume_lookups().await;
    // Twice as many as are needed: on a busy machine the list comes in parts. Without gathering there are 6 or more.
    let most = 2 * FOREIGN.div_ceil(BATCH) as u64;
    eprintln!(
        "{calls} lookups of {VOLUMES} volumes, {} after the restart",
        now - calls
    );
    assert!(now - calls <= most, "{} calls", now - calls);
    // It is at work all the while.
    stage.mock.set_volume("late", VolumeState::Available).await;
    let late = persistent_volume(csi("late"), named("late"));
    stage.create_volume(late).await.unwrap();
    until("it is labelled", async || {
        is_labelled(&stage.volume("late").await)
    })
    .await;
}
