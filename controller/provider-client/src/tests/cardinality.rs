//! Values of a provider must not become ever more series.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use outrigger_api::v1::{self, Readiness};
use tonic::Code;

use super::{
    fake::{Reply, handshake, refusal, status},
    is_down,
    rig::Rig,
    secs,
};
use crate::DownCause;

/// Series by name, without the buckets.
fn series(scrape: &str) -> BTreeMap<&str, usize> {
    let mut series = BTreeMap::new();
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.contains("_bucket{")) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        *series.entry(name).or_default() += 1;
    }
    series
}

#[tokio::test(start_paused = true)]
async fn words_that_a_provider_makes_up_are_not_kept_as_labels() {
    const CODES: [Code; 6] = [
        Code::InvalidArgument,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::Internal,
        Code::NotFound,
        Code::DataLoss,
    ];
    let rig = Rig::with(|_, fake| {
        let said = AtomicUsize::new(0);
        fake.on_handshake(move |_| {
            let nth = said.fetch_add(1, Relaxed);
            Reply::Say(v1::HandshakeResponse {
                provider_version: format!("v{nth}"),
                ..handshake()
            })
        });
        let felt = AtomicUsize::new(0);
        fake.on_status(move || {
            let nth = felt.fetch_add(1, Relaxed);
            let quotas = (0..100).map(|quota| v1::QuotaStatus {
                name: format!("quota-{nth}-{quota}"),
                ..v1::QuotaStatus::default()
            });
            Reply::Say(v1::GetStatusResponse {
                quotas: quotas.collect(),
                ..status(Readiness::Ready)
            })
        });
        let calls_made = AtomicUsize::new(0);
        fake.on_batch(move |_| {
            let nth = calls_made.fetch_add(1, Relaxed);
            let reason = format!("MADE_UP_{nth}");
            Reply::Fail(refusal(CODES[nth % CODES.len()], &reason, None))
        });
    });
    for round in 0..20 {
        rig.wait_until_serving().await;
        for _ in 0..5 {
            rig.look_up(&format!("node-{round}")).await.unwrap_err();
        }
        tokio::time::sleep(secs(30)).await;
        rig.fake.kill();
        rig.reaches(is_down(DownCause::Disconnected)).await;
        rig.fake.restart();
    }
    rig.wait_until_serving().await;
    tokio::time::sleep(secs(1)).await;

    let scrape = rig.metrics();
    let series = series(&scrape);
    assert_eq!(series["outrigger_provider_info"], 1, "{scrape}");
    assert_eq!(series["outrigger_provider_quota_limit"], 32, "{scrape}");
    // A series for each code, and the series of the handshake and the heartbeat.
    let calls = series["outrigger_provider_rpc_duration_seconds_count"];
    assert!(calls <= CODES.len() + 4, "{scrape}");
    for (name, series) in series {
        assert!(series <= 32, "{series} of {name}");
    }
    assert!(!scrape.contains("MADE_UP"), "{scrape}");
    assert!(!scrape.contains("node-"), "{scrape}");
}
