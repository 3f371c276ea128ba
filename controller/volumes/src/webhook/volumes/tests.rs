//! With the mock provider behind a pipe, on the paused clock.

use futures::future::join_all;
use outrigger_provider_mock::{ProviderOptions, ServedVolumes};
use prometheus_client::registry::Registry;
use serde_json::{json, value::to_raw_value};
use tokio::time::{Instant, timeout};

use super::*;
use outrigger_loops::fixture::{Fixture, Setup};

const API_SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

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
    async fn ask(&self, peer: IpAddr, nth: usize) -> Result<AdmissionVerdict, String> {
        let handle = format!("guess-{nth}");
        let volume = json!({
            "metadata": {"name": handle},
            "spec": {"csi": {"driver": "disk.example", "volumeHandle": handle}},
        });
        self.review(to_raw_value(&volume).unwrap(), peer).await
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_guess_handles_cause_few_lookups_and_do_not_delay_the_api_server_for_long() {
    let (fixture, reviewer) = served().await;
    let began = Instant::now();
    let guesses = (0..2_000_usize).map(|nth| {
        let stranger = [10, 0, 1, (nth % 16) as u8].into();
        reviewer.ask(stranger, nth)
    });
    let volume = async {
        tokio::task::yield_now().await;
        timeout(Duration::from_secs(3), reviewer.ask(API_SERVER, 0)).await
    };
    let (guessed, verdict) = tokio::join!(join_all(guesses), volume);
    let verdict = verdict.expect("the API server waits for too long").unwrap();
    assert!(
        matches!(verdict, AdmissionVerdict::Refuse(_)),
        "{verdict:?}"
    );
    let refused: Vec<_> = guessed.into_iter().filter_map(Result::err).collect();
    assert!(refused.len() > 1_900, "{}", refused.len());
    assert_eq!(refused[0], "too many volumes are looked up at once");
    let lookups = fixture.calls("GetVolume");
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        lookups as f64 <= 1.0 + 25.0 * seconds,
        "{lookups} lookups in {seconds} s"
    );
    assert_eq!(reviewer.metrics.refused(), refused.len() as u64);
}
