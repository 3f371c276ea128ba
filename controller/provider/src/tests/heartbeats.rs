use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_api::v1::{self, Readiness};
use tokio::time::{Instant, sleep, timeout};

use super::{
    fake::{NO_BOOT_ID, Reply, status},
    is_down,
    rig::Rig,
    secs,
};
use crate::{DownCause, Error, ProviderState};

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_down_after_two_heartbeats() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.status.on(|_| Reply::Hang);
    rig.fake.batch.on(|_| Reply::Hang);
    // Its own deadline is far away when the connection is given up.
    sleep(secs(9)).await;
    let started = Instant::now();
    let lost = rig.look_up("a");
    let watched = async {
        rig.reaches(|state| matches!(state, ProviderState::Degraded { .. }))
            .await;
        assert_eq!(started.elapsed(), secs(6));
        rig.reaches(is_down(DownCause::Silent)).await
    };
    let (lost, state) = tokio::join!(lost, watched);
    assert!(
        matches!(lost, Err(Error::ConnectionLost { .. })),
        "{lost:?}"
    );
    assert_eq!(started.elapsed(), secs(11));
    assert!(state.to_string().contains("hangs"), "{state}");
    rig.fake.status.on(|_| Reply::Say(status(Readiness::Ready)));
    timeout(secs(1), rig.wait_until_serving()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_late_heartbeat_loses_nothing() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let beats = AtomicUsize::new(0);
    rig.fake
        .status
        .on(move |_| match beats.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::Hang,
            _ => Reply::After(secs(1), Box::new(Reply::Say(status(Readiness::Ready)))),
        });
    rig.reaches(|state| matches!(state, ProviderState::Degraded { .. }))
        .await;
    rig.reaches(|state| *state == ProviderState::Ready).await;
    assert_eq!(rig.fake.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_run_every_10_s_or_60_s_on_a_standby() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let started = Instant::now();
    let beats = || {
        let beats = rig.fake.status.calls();
        let times = beats
            .iter()
            .map(|(beat, _)| beat.duration_since(started).as_secs());
        times.collect::<Vec<_>>()
    };
    sleep(secs(25)).await;
    assert_eq!(beats(), [0, 10, 20]);
    rig.provider.set_standby(true);
    sleep(secs(60)).await;
    assert_eq!(beats(), [0, 10, 20, 80]);
    // 25 s after the last one: due at once.
    sleep(secs(20)).await;
    rig.provider.set_standby(false);
    sleep(secs(11)).await;
    assert_eq!(beats(), [0, 10, 20, 80, 105, 115]);
}

#[tokio::test(start_paused = true)]
async fn readiness_decides_whether_queues_run() {
    let rig = Rig::with(|_, fake| fake.status.on(|_| Reply::Say(status(Readiness::Starting))));
    rig.reaches(|state| *state == ProviderState::Starting).await;
    assert!(timeout(secs(5), rig.wait_until_serving()).await.is_err());
    rig.fake.status.on(|_| {
        let mut answer = status(Readiness::Degraded);
        answer.dependencies = vec![
            v1::DependencyStatus {
                name: "compute-api".into(),
                readiness: Readiness::Broken.into(),
                message: "5\n0\n3".into(),
                ..v1::DependencyStatus::default()
            },
            v1::DependencyStatus {
                name: "dns".into(),
                readiness: Readiness::Ready.into(),
                ..v1::DependencyStatus::default()
            },
        ];
        answer.quotas = vec![v1::QuotaStatus {
            name: "calls".into(),
            limit: 10,
            remaining: 7,
            resets_at: None,
        }];
        Reply::Say(answer)
    });
    rig.wait_until_serving().await;
    let state = rig.provider.state().borrow().clone();
    assert!(
        state.to_string().ends_with("(compute-api: 5\\n0\\n3)"),
        "{state}"
    );
    assert!(
        rig.metrics()
            .contains("outrigger_provider_quota_remaining{quota=\"calls\"} 7")
    );
    rig.fake
        .status
        .on(|_| Reply::Say(status(Readiness::Broken)));
    rig.reaches(is_down(DownCause::Broken)).await;
    rig.fake
        .status
        .on(|_| Reply::Say(status(Readiness::Unspecified)));
    rig.reaches(|state| matches!(state, ProviderState::Degraded { .. }))
        .await;
    // A report of the provider is no reason to disconnect.
    assert_eq!(rig.fake.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_behind_the_connection_is_greeted() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake
        .introduce(|answer| answer.boot_id = "boot-2".into());
    rig.fake.status.on(|_| {
        let mut answer = status(Readiness::Ready);
        answer.boot_id = "boot-2".into();
        Reply::Say(answer)
    });
    let other = rig
        .provider
        .caller
        .shared
        .session_that(|session| &*session.boot_id == "boot-2");
    timeout(secs(60), other).await.unwrap();
    sleep(secs(60)).await;
    assert_eq!((rig.fake.dials(), rig.fake.handshake.calls().len()), (2, 2));
}

/// Each mistake that a vendor makes with `boot_id`.
#[tokio::test(start_paused = true)]
async fn a_boot_id_that_never_fits_is_an_outage_with_its_reason_and_no_storm() {
    for (said, quoted) in [("another", "\"another\""), (NO_BOOT_ID, "\"\"")] {
        let rig = Rig::start();
        rig.fake.status.on(move |_| {
            let mut answer = status(Readiness::Ready);
            answer.boot_id = said.into();
            Reply::Say(answer)
        });
        let state = rig.reaches(is_down(DownCause::Disconnected)).await;
        let state = state.to_string();
        assert!(
            state.contains(quoted) && state.contains("\"boot-1\""),
            "{state}"
        );
        sleep(secs(100)).await;
        let handshakes = rig.fake.handshake.calls().len();
        assert!(handshakes < 250, "{handshakes}");
        rig.fake.status.on(|_| Reply::Say(status(Readiness::Ready)));
        rig.reaches(|state| *state == ProviderState::Ready).await;
    }
}
