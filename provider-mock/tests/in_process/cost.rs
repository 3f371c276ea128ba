//! Costs of lookups in the cloud, and its delays.

use std::num::NonZeroUsize;
use std::time::Duration;

use outrigger_api::v1::{AbsenceCertainty, instance_result::Outcome};
use outrigger_provider_mock::CloudConfig;
use outrigger_provider_mock::cloud::{Clock, Preference, Quota};
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
    for (preference, count, calls, time) in [
        (Preference::Batch, 1, 1, 20 * MS),
        (Preference::Batch, 100, 1, 20 * MS),
        (Preference::Batch, 101, 2, 20 * MS),
        (Preference::List, 250, 3, 20 * MS),
        (Preference::Each, 100, 100, 260 * MS),
    ] {
        let (counted, took) = cost_of(count, |config| {
            config.preference = preference;
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
    let limited = |name: &&str| matches!(answer.outcome(name), Outcome::Error(_));
    let refused: Vec<_> = names.iter().filter(|name| limited(name)).collect();
    assert_eq!(refused.len(), 6);
    for name in refused {
        let (code, reason) = answer.error(name);
        assert_eq!(code, Code::ResourceExhausted);
        assert_eq!(reason.as_deref(), Some("RATE_LIMITED"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_young_instance_is_not_visible_yet() {
    let delay = Duration::from_secs(30);
    let mock = Mock::start(|config| {
        config.visibility_delay = Some(delay);
        config.clock = Clock::tokio();
    })
    .await;
    let declared = mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .instances
        .unwrap();
    assert_eq!(declared.visibility_delay.unwrap().seconds, 30);
    mock.create("n-1");
    let answer = mock.ask_names(&["n-1"]).await.unwrap();
    let Outcome::Absent(absent) = answer.outcome("n-1") else {
        panic!("{answer:?}");
    };
    assert_eq!(absent.certainty(), AbsenceCertainty::NotVisibleYet);
    assert_eq!(mock.list().await.unwrap(), (Vec::new(), true));

    tokio::time::advance(delay).await;
    mock.ask_names(&["n-1"]).await.unwrap().found("n-1");
    assert_eq!(mock.list().await.unwrap().0.len(), 1);
}
