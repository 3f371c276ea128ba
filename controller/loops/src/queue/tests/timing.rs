//! Delays, back-off and what is counted as a failure.

use super::*;
use crate::queue::state::State;

#[test]
fn backoff_doubles_up_to_its_cap() {
    let delay = |backoff: Backoff, failures| backoff.delay(failures, Duration::MAX, 0.5);
    let service = Backoff::new(5 * SECOND, 300 * SECOND);
    let delays: Vec<_> = (0..8).map(|n| delay(service, n).as_secs()).collect();
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300]);

    let default = Backoff::default();
    for (failures, expected) in [
        (0, 5 * MS),
        (1, 10 * MS),
        (17, 655_360 * MS),
        (18, 1000 * SECOND),
        (31, 1000 * SECOND),
        (u32::MAX, 1000 * SECOND),
    ] {
        assert_eq!(
            delay(default, failures),
            expected,
            "after {failures} failures"
        );
    }
    assert_eq!(delay(Backoff::new(9 * SECOND, SECOND), 0), SECOND);
    assert_eq!(
        delay(Backoff::new(Duration::MAX, Duration::MAX), 9),
        Duration::MAX
    );
}

#[test]
fn jitter_takes_up_to_a_fifth_of_a_delay() {
    let backoff = Backoff::new(SECOND, 300 * SECOND).with_jitter();
    for (random, expected) in [(0.0, 4000), (0.5, 3600), (1.0, 3200)] {
        assert_eq!(backoff.delay(2, Duration::MAX, random), expected * MS);
    }
    // Below a limit too: a deletion that fails is tried again no later than that.
    assert_eq!(backoff.delay(9, 30 * SECOND, 0.5), 27 * SECOND);
}

/// Keys that failed in one call are retried apart. Keys with a malformed answer are retried together: only a call about
/// both Nodes shows that they have one provider ID.
#[tokio::test(start_paused = true)]
async fn keys_that_fail_together_do_not_meet_again() {
    for (outcome, times) in [
        (Outcome::Retry, 90..=100),
        (Outcome::RetrySlowly(300 * SECOND), 1..=1),
    ] {
        let backoff = Backoff::new(SECOND, 300 * SECOND).with_jitter();
        let mut state = State::new(backoff, QueueMetrics::default().counters("test"));
        let now = Instant::now();
        for key in 0..100 {
            state.add(now, key, Priority::Fresh);
        }
        let any = Concurrency::of(usize::MAX);
        while let Some((key, _)) = state.take(now, any) {
            state.finish(now, &key, outcome);
        }
        let mut due = std::collections::BTreeSet::new();
        while let Some(at) = state.next_due() {
            due.insert(at);
            state.fire(at);
            while let Some((key, _)) = state.take(at, any) {
                state.finish(at, &key, Outcome::Done);
            }
        }
        assert!(times.contains(&due.len()), "{outcome:?}: {}", due.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_and_success_forgets() {
    let rig = Rig::one_worker(|_, nth| match nth {
        7 => (Duration::ZERO, Outcome::Done),
        _ => (Duration::ZERO, Outcome::Retry),
    });
    rig.add("a");
    rig.at(SECOND).await;
    rig.add("a");
    rig.at(1020 * MS).await;
    assert_eq!(
        rig.times(),
        [0, 5, 15, 35, 75, 155, 315, 635, 1000, 1005, 1015]
    );
}

#[tokio::test(start_paused = true)]
async fn the_backoff_of_one_key_delays_no_other() {
    let rig = Rig::one_worker(|key, _| match key {
        "good" => (Duration::ZERO, Outcome::Done),
        _ => (Duration::ZERO, Outcome::Retry),
    });
    rig.add("bad");
    rig.at(100 * MS).await;
    rig.add("good");
    rig.at(101 * MS).await;
    assert_eq!(rig.runs().last(), Some(&("good", 100)));
}

#[tokio::test(start_paused = true)]
async fn an_add_during_backoff_runs_at_once_and_its_failure_is_not_counted() {
    let rig = Rig::one_worker(|_, _| (Duration::ZERO, Outcome::Retry));
    rig.add("a");
    // Failures at 0, 5, 15, 35, 75; the next back-off lasts until 155.
    for ms in 80..150 {
        rig.at(ms * MS).await;
        rig.add("a");
    }
    rig.at(400 * MS).await;
    let expected = [0, 5, 15, 35, 75].into_iter();
    let expected = expected.chain(80..150).chain([155, 315]);
    assert_eq!(rig.times(), expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_early_run_that_outlasts_the_backoff_is_followed_by_the_retry() {
    let rig = Rig::one_worker(|_, nth| match nth {
        1 => (20 * MS, Outcome::Retry),
        3 => (Duration::ZERO, Outcome::Done),
        _ => (Duration::ZERO, Outcome::Retry),
    });
    rig.add("a");
    rig.at(3 * MS).await;
    rig.add("a");
    rig.at(SECOND).await;
    // 5 is when the retry became due, 23 when the key was free again; the failure at 23 is the
    // second one that counts.
    assert_eq!(rig.times(), [0, 3, 23, 33]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_exact_and_leaves_the_count_alone() {
    let rig = Rig::one_worker(|_, nth| match nth {
        0 | 1 | 3 => (Duration::ZERO, Outcome::Retry),
        2 => (Duration::ZERO, Outcome::RetryAfter(3 * SECOND)),
        _ => (Duration::ZERO, Outcome::Done),
    });
    rig.add("a");
    rig.at(10 * SECOND).await;
    assert_eq!(rig.times(), [0, 5, 15, 3015, 3035]);
}
