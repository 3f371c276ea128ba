//! With the mock provider behind a pipe, on the paused clock.

use futures::future::join_all;
use outrigger_provider_mock::{ProviderOptions, ServedVolumes};
use prometheus_client::registry::Registry;
use serde_json::{json, value::to_raw_value};

use super::*;
use outrigger_loops::fixture::{Fixture, Setup};

async fn served() -> (Fixture, VolumeReviewer) {
    let fixture = Fixture::new(Setup {
        provider: ProviderOptions {
            volumes: Some(ServedVolumes {
                csi_drivers: vec!["disk.example".into()],
                in_tree: true,
            }),
            ..ProviderOptions::default()
        },
        ..Setup::default()
    });
    fixture.settle().await;
    let metrics = WebhookMetrics::register(&mut Registry::default());
    let reviewer = VolumeReviewer::new(fixture.provider.clone(), metrics);
    (fixture, reviewer)
}

impl VolumeReviewer {
    async fn ask(&self, nth: usize) -> Result<AdmissionVerdict, String> {
        let handle = format!("guess-{nth}");
        let volume = json!({
            "metadata": {"name": handle},
            "spec": {"csi": {"driver": "disk.example", "volumeHandle": handle}},
        });
        self.review(to_raw_value(&volume).unwrap()).await
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_guess_handles_cause_few_lookups_at_once() {
    let (fixture, reviewer) = served().await;
    let guessed = join_all((0..2_000).map(|nth| reviewer.ask(nth))).await;
    let refused: Vec<_> = guessed.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 2_000 - LOOKUPS);
    assert_eq!(refused[0], "too many volumes are looked up at once");
    assert!(fixture.calls("GetVolume") <= LOOKUPS as u64);
    assert_eq!(reviewer.metrics.refused(), refused.len() as u64);
    assert!(reviewer.ask(0).await.is_ok(), "places are given back");
}
