//! Which key goes when, the gate, panics and the end. Random histories are in `model`.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::*;
use crate::queue::state::State;

#[tokio::test(start_paused = true)]
async fn a_closed_gate_holds_keys_back_and_lets_handlers_end() {
    let (open, gate) = watch::channel(true);
    let rig = Rig::start(queue(), 4, Gate::new(gate, |open| *open), |_, _| {
        (10 * MS, Outcome::Done)
    });
    rig.add("before");
    rig.at(MS).await;
    open.send(false).unwrap();
    rig.at(5 * MS).await;
    rig.add("during");
    rig.add("before");
    // Due behind the closed gate. If the loop span, the paused clock would stand still here.
    rig.queue.add_after("delayed", Priority::Fresh, 10 * MS);
    rig.at(500 * MS).await;
    assert_eq!(rig.runs(), [("before", 0)]);
    assert_eq!(rig.queue.depth(), 3);
    open.send(true).unwrap();
    rig.at(SECOND).await;
    assert_eq!(
        rig.runs()[1..],
        [("during", 500), ("before", 500), ("delayed", 500)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_gate_reads_any_state_and_keeps_the_last_one() {
    let (state, watched) = watch::channel("down");
    let queue = queue();
    queue.add("a", Priority::Fresh);
    let (runs, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    let counted = Arc::clone(&runs);
    tasks.spawn(async move {
        let gate = Gate::new(watched, |state| *state == "ready");
        let handler = move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Outcome::RetryAfter(SECOND) }
        };
        let stop = CancellationToken::new();
        let one = || Concurrency::of(1);
        queue.run(one, no_slot, gate, stop, each(handler)).await;
    });
    sleep(10 * SECOND).await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    state.send("ready").unwrap();
    drop(state);
    sleep(2500 * MS).await;
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_key_only() {
    let queue = queue();
    let panics = queue.shared.panics.clone();
    let rig = Rig::start(queue, 2, always_open(), |key, nth| {
        assert!(key != "bad" || nth > 2, "expected by the test");
        (100 * MS, Outcome::Done)
    });
    rig.add("good");
    rig.add("bad");
    rig.at(50 * MS).await;
    rig.add("also good");
    rig.at(SECOND).await;
    assert_eq!(
        rig.runs(),
        [
            ("good", 0),
            ("bad", 0),
            ("bad", 5),
            ("bad", 15),
            ("bad", 35),
            ("also good", 100)
        ]
    );
    assert_eq!(panics.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_handlers_and_takes_no_more() {
    let mut rig = Rig::start(queue(), 1, always_open(), |_, nth| match nth {
        0 => (300 * MS, Outcome::Retry),
        _ => (Duration::ZERO, Outcome::Done),
    });
    rig.add("running");
    rig.add("waiting");
    rig.at(100 * MS).await;
    rig.stop().await;
    assert_eq!(rig.start.elapsed(), 300 * MS);
    assert_eq!(rig.keys(), ["running"]);

    // Keys that were left are there for the next term.
    let next = Rig::start(rig.queue.clone(), 1, always_open(), done);
    sleep(SECOND).await;
    assert_eq!(next.runs(), [("waiting", 0), ("running", 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_gives_its_keys_back() {
    let mut rig = Rig::one_worker(|_, _| (300 * MS, Outcome::Done));
    rig.add("a");
    rig.at(100 * MS).await;
    rig.tasks.shutdown().await;
    assert_eq!(rig.queue.depth(), 1);
    let next = Rig::start(rig.queue.clone(), 1, always_open(), done);
    sleep(MS).await;
    assert_eq!(next.runs(), [("a", 0)]);
}

/// Its object is gone, wherever it waits; a run of it ends as it would.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_taken_out_does_not_run() {
    let queue = queue();
    queue.add("ready", Priority::Bulk);
    queue.add_after("later", Priority::Fresh, 10 * MS);
    queue.add("kept", Priority::Fresh);
    for key in ["ready", "later", "never added"] {
        queue.remove(&key);
    }
    assert_eq!(queue.depth(), 1);
    let rig = Rig::start(queue, 1, always_open(), |key, run| match (key, run) {
        ("kept", 0) => (100 * MS, Outcome::Retry),
        _ => (100 * MS, Outcome::Done),
    });
    rig.at(50 * MS).await;
    rig.add("kept");
    rig.queue.remove(&"kept");
    rig.at(SECOND).await;
    // For its outcome, and not for the change that is forgotten.
    assert_eq!(rig.keys(), ["kept", "kept"]);
    assert!(rig.queue.shared.state.lock().is_empty());
}

type Runs = Arc<Mutex<Vec<(u128, &'static str)>>>;

/// A queue at work whose keys hold their slot for a second, and of which one may be bulk work.
fn start(slots: &Arc<Semaphore>, gate: Gate<bool>) -> (Queue<&'static str>, Runs, JoinSet<()>) {
    let (queue, runs) = (queue(), Runs::default());
    let (at_work, run_log, slots) = (queue.clone(), Arc::clone(&runs), Arc::clone(slots));
    let start = Instant::now();
    let handler = move |key, _, slot: OwnedSemaphorePermit| {
        let time = start.elapsed().as_millis();
        run_log.lock().push((time, key));
        async move {
            sleep(SECOND).await;
            drop(slot);
            Outcome::Done
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let slot = move || -> BoxFuture<'static, OwnedSemaphorePermit> {
            let slots = Arc::clone(&slots);
            Box::pin(async { slots.acquire_owned().await.unwrap() })
        };
        let concurrency = || Concurrency { all: 8, bulk: 1 };
        let stop = CancellationToken::new();
        at_work.run(concurrency, slot, gate, stop, handler).await;
    });
    (queue, runs, tasks)
}

fn names(runs: &Runs) -> Vec<&'static str> {
    runs.lock().iter().map(|(_, key)| *key).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_slot_is_for_the_most_urgent_key_that_waits_at_that_time() {
    let (queue, runs, _tasks) = start(&Arc::new(Semaphore::new(1)), always_open());
    queue.add_all(["bulk 1", "bulk 2"], Priority::Bulk);
    queue.add_all(["update 1", "update 2"], Priority::Update);
    sleep(100 * MS).await;
    queue.add("fresh", Priority::Fresh);
    // It is not in flight, so that a change finds it.
    queue.add("bulk 2", Priority::Fresh);
    sleep(20 * SECOND).await;
    let expected = ["update 1", "fresh", "bulk 2", "update 2", "bulk 1"];
    assert_eq!(names(&runs), expected);
}

#[tokio::test(start_paused = true)]
async fn bulk_keys_leave_slots_to_others() {
    let (queue, runs, _tasks) = start(&Arc::new(Semaphore::new(3)), always_open());
    queue.add_all(["bulk 1", "bulk 2", "bulk 3"], Priority::Bulk);
    sleep(100 * MS).await;
    queue.add("fresh", Priority::Fresh);
    sleep(5 * SECOND).await;
    let expected = [
        (0, "bulk 1"),
        (100, "fresh"),
        (1000, "bulk 2"),
        (2000, "bulk 3"),
    ];
    assert_eq!(*runs.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_takes_no_slot() {
    let (open, gate) = watch::channel(false);
    let slots = Arc::new(Semaphore::new(1));
    let (queue, _runs, _tasks) = start(&slots, Gate::new(gate, |open| *open));
    queue.add("a", Priority::Fresh);
    sleep(SECOND).await;
    assert_eq!(slots.available_permits(), 1);
    open.send(true).unwrap();
    sleep(MS).await;
    assert_eq!(slots.available_permits(), 0);
}

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

/// An API server that was away refuses every client until it has read its roles.
#[tokio::test(start_paused = true)]
async fn a_slow_back_off_does_not_count_the_failures_of_the_other() {
    let rig = Rig::one_worker(|_, nth| match nth {
        ..5 => (Duration::ZERO, Outcome::Retry),
        7 => (Duration::ZERO, Outcome::Done),
        _ => (Duration::ZERO, Outcome::RetrySlowly(300 * SECOND)),
    });
    rig.add("a");
    rig.at(60 * SECOND).await;
    assert_eq!(rig.times(), [0, 5, 15, 35, 75, 155, 5155, 15155]);
}
