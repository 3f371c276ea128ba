//! Workers, the gate, panics and the end.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use super::*;

#[tokio::test(start_paused = true)]
async fn no_more_handlers_at_once_than_asked_for() {
    let rig = Rig::start(queue(), 2, always_open(), |_, _| (100 * MS, Outcome::Done));
    for key in ["a", "b", "c", "d", "e"] {
        rig.add(key);
    }
    rig.at(SECOND).await;
    assert_eq!(rig.times(), [0, 0, 100, 100, 200]);
}

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

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_key_that_is_done() {
    let rig = Rig::one_worker(|_, nth| match nth {
        0 => (Duration::ZERO, Outcome::Retry),
        1 => (Duration::ZERO, Outcome::RetryAfter(SECOND)),
        _ => (Duration::ZERO, Outcome::Done),
    });
    rig.add("a");
    rig.queue.add_after("a", Priority::Bulk, 2 * SECOND);
    rig.at(5 * SECOND).await;
    assert!(rig.queue.shared.state.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_keys_pass_in_no_time() {
    let queue = Queue::new("test", Backoff::default(), &QueueMetrics::default());
    let start = Instant::now();
    for key in 0..50_000_u32 {
        queue.add(key, Priority::Bulk);
    }
    let (left, shutdown) = (AtomicUsize::new(50_000), CancellationToken::new());
    let stop = shutdown.clone();
    let handler = move |_, _| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            stop.cancel();
        }
        async { Outcome::Done }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let gate = always_open();
        let concurrency = || Concurrency::of(16);
        let run = queue.run(concurrency, no_slot, gate, shutdown, each(handler));
        run.await;
    });
    tasks.join_next().await;
    let took = start.elapsed();
    eprintln!("50,000 keys in {took:?}");
    // Under a second on an idle machine; the bound is for busy ones.
    assert!(took < 10 * SECOND, "{took:?}");
}
