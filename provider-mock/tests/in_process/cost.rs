//! Costs of lookups in the cloud.

use std::num::NonZeroUsize;
use std::time::Duration;

use outrigger_api::v1::GetStatusRequest;
use outrigger_provider_mock::cloud::{Jitter, Preference, Quota};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions};
use tokio::time::Instant;
use tonic::Code;

use crate::harness::{Mock, reason, retry_after};

const MS: Duration = Duration::from_millis(1);

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("n-{index}")).collect()
}

async fn cost_of(count: usize, change: impl FnOnce(&mut CloudConfig)) -> (u64, Duration) {
    let mock = Mock::start(|config| {
        config.synthesize = true;
        config.latency = 20 * MS;
        config.page_size = NonZeroUsize::new(100).unwrap();
        change(config);
    })
    .await;
    let names = names(count);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let started = Instant::now();
    assert_eq!(mock.ask_names(&names).await.unwrap().len(), count);
    let counters = mock.cloud.counters();
    assert_eq!(counters.items["BatchGetInstances"], count as u64);
    (counters.cloud_calls(), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_one_call_a_page_and_else_one_a_node() {
    let parallel = |calls| NonZeroUsize::new(calls).unwrap();
    for (preference, count, calls_at_a_time, calls, time) in [
        (Preference::Batch, 1, 8, 1, 20 * MS),
        (Preference::Batch, 100, 8, 1, 20 * MS),
        (Preference::Batch, 101, 8, 2, 20 * MS),
        (Preference::Batch, 500, 1, 5, 100 * MS),
        (Preference::List, 250, 8, 3, 20 * MS),
        (Preference::Each, 100, 8, 100, 260 * MS),
        (Preference::Each, 10, 1, 10, 200 * MS),
    ] {
        let (counted, took) = cost_of(count, |config| {
            config.preference = preference;
            config.parallel_calls = parallel(calls_at_a_time);
        })
        .await;
        assert_eq!(counted, calls, "{preference:?} {count}");
        // Timers have a grain of 1 ms, and a call to the mock itself is not free of them.
        let slack = 2 * MS * (time.as_millis() / 20) as u32;
        assert!(
            took >= time && took <= time + slack,
            "{preference:?} {count} took {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_varies_the_latency_and_its_seed_repeats_it() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let mut times = Vec::new();
        let mock = Mock::start(|config| {
            config.latency = 100 * MS;
            config.jitter = Jitter::Fraction(0.5);
            config.seed = seed;
        })
        .await;
        for _ in 0..10 {
            let started = Instant::now();
            mock.ask_names(&["n"]).await.unwrap();
            let took = started.elapsed();
            assert!(took >= 50 * MS && took <= 152 * MS, "{took:?}");
            times.push(took);
        }
        runs.push(times);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_beyond_the_rate_limit_fails_whole_and_says_until_when() {
    let quota = Quota { qps: 2.0, burst: 3 };
    let mock = Mock::start(|config| config.quota = Some(quota)).await;
    for _ in 0..3 {
        mock.ask_names(&["n"]).await.unwrap();
    }
    let refused = mock.ask_names(&["n"]).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason(&refused).as_deref(), Some("RATE_LIMITED"));
    let wait = retry_after(&refused).unwrap();
    assert!(wait > 400 * MS && wait <= 500 * MS, "{wait:?}");
    tokio::time::advance(wait).await;
    mock.ask_names(&["n"]).await.unwrap();

    let counters = mock.cloud.counters();
    let lookups = counters.cloud["GetInstances"];
    assert_eq!((lookups.served, lookups.rate_limited), (4, 1));
    assert_eq!(counters.calls("BatchGetInstances", "OK"), 4);
    assert_eq!(counters.calls("BatchGetInstances", "RESOURCE_EXHAUSTED"), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_beyond_the_rate_limit_fail_singly_where_each_is_a_call() {
    let mock = Mock::start(|config| {
        config.synthesize = true;
        config.preference = Preference::Each;
        config.quota = Some(Quota { qps: 1.0, burst: 4 });
    })
    .await;
    let names = names(10);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = mock.ask_names(&names).await.unwrap();
    let limited = |name: &&str| {
        matches!(
            answer.outcome(name),
            outrigger_api::v1::instance_result::Outcome::Error(_)
        )
    };
    let refused: Vec<_> = names.iter().filter(|name| limited(name)).collect();
    assert_eq!(refused.len(), 6);
    for name in refused {
        let (code, reason) = answer.error(name);
        assert_eq!(code, Code::ResourceExhausted);
        assert_eq!(reason.as_deref(), Some("RATE_LIMITED"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_quota_is_shown_in_the_status_and_announced_if_wanted() {
    for announce in [false, true] {
        let mut config = CloudConfig::new().unwrap();
        config.quota = Some(Quota {
            qps: 5.0,
            burst: 10,
        });
        let options = ProviderOptions {
            announce_quota: announce,
            ..ProviderOptions::default()
        };
        let mut mock = Mock::over(Cloud::new(config), options).await;
        let announced = &mock.handshake.rate_limits;
        assert_eq!(
            announced
                .iter()
                .map(|limit| limit.burst)
                .collect::<Vec<_>>(),
            { if announce { vec![10] } else { vec![] } }
        );
        mock.ask_names(&["n"]).await.unwrap();
        let status = mock
            .provider
            .get_status(GetStatusRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            (status.quotas[0].limit, status.quotas[0].remaining),
            (10, 9)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_cost_can_be_changed_while_it_runs() {
    let mock = Mock::start(|_| {}).await;
    mock.cloud.set_latency(Duration::from_secs(2), None);
    let started = Instant::now();
    mock.ask_names(&["n"]).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(2));
    mock.cloud.set_quota(Some(Quota { qps: 0.1, burst: 1 }));
    mock.ask_names(&["n"]).await.unwrap();
    mock.ask_names(&["n"]).await.unwrap_err();
    mock.cloud.set_quota(None);
    mock.ask_names(&["n"]).await.unwrap();
}
