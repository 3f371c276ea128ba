//! Which key goes when.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once() {
    let queue = queue();
    for _ in 0..3 {
        queue.add("a", Priority::Fresh);
        queue.add("b", Priority::Fresh);
    }
    assert_eq!(queue.depth(), 2);
    let rig = Rig::start(queue, 1, always_open(), done);
    rig.at(SECOND).await;
    assert_eq!(rig.keys(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_is_worked_on_runs_again_afterwards() {
    let rig = Rig::start(queue(), 4, always_open(), |_, _| (100 * MS, Outcome::Done));
    rig.add("a");
    rig.at(10 * MS).await;
    rig.add("a");
    rig.add("a");
    rig.at(SECOND).await;
    assert_eq!(rig.runs(), [("a", 0), ("a", 100)]);
}

#[tokio::test(start_paused = true)]
async fn fresh_goes_before_bulk_and_first_in_is_first_out() {
    let queue = queue();
    queue.add("bulk 1", Priority::Bulk);
    queue.add("bulk 2", Priority::Bulk);
    queue.add("fresh 1", Priority::Fresh);
    queue.add("fresh 2", Priority::Fresh);
    queue.add("bulk 1", Priority::Bulk);
    let rig = Rig::start(queue, 1, always_open(), done);
    rig.at(SECOND).await;
    assert_eq!(rig.keys(), ["fresh 1", "fresh 2", "bulk 1", "bulk 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_priority_is_raised_and_never_lowered() {
    let queue = queue();
    queue.add("raised", Priority::Bulk);
    queue.add("fresh", Priority::Fresh);
    queue.add("raised", Priority::Fresh);
    queue.add("fresh", Priority::Bulk);
    queue.add("fresh 2", Priority::Fresh);
    queue.add("bulk", Priority::Bulk);
    assert_eq!(queue.depth(), 4);
    let rig = Rig::start(queue, 1, always_open(), done);
    rig.at(SECOND).await;
    assert_eq!(rig.keys(), ["fresh", "raised", "fresh 2", "bulk"]);
}

#[tokio::test(start_paused = true)]
async fn a_priority_is_raised_while_the_key_is_worked_on() {
    let rig = Rig::one_worker(|_, _| (10 * MS, Outcome::Done));
    rig.add("a");
    rig.at(MS).await;
    rig.queue.add("a", Priority::Bulk);
    rig.queue.add("a", Priority::Fresh);
    rig.queue.add("bulk", Priority::Bulk);
    rig.at(SECOND).await;
    assert_eq!(rig.keys(), ["a", "a", "bulk"]);
}

#[tokio::test(start_paused = true)]
async fn bulk_keys_do_not_starve_though_fresh_ones_never_end() {
    let rig = Rig::one_worker(|_, _| (10 * MS, Outcome::Done));
    for key in ["bulk 1", "bulk 2"] {
        rig.queue.add(key, Priority::Bulk);
    }
    // Two fresh keys that are always there again before the other one is through.
    for turn in 0..40 {
        rig.add("a");
        rig.add("b");
        rig.at(turn * 10 * MS + 5 * MS).await;
    }
    let at = |name| rig.keys().iter().position(|key| *key == name);
    assert_eq!((at("bulk 1"), at("bulk 2")), (Some(7), Some(15)));
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_priority() {
    let rig = Rig::one_worker(|key, nth| match (key, nth) {
        ("fails", 0) => (20 * MS, Outcome::Retry),
        _ => (20 * MS, Outcome::Done),
    });
    rig.queue.add("fails", Priority::Bulk);
    rig.at(MS).await;
    rig.add("fresh 1");
    rig.at(21 * MS).await;
    // "fails" becomes ready at 25 ms, before "fresh 2" is added, and yet goes after it.
    rig.at(30 * MS).await;
    rig.add("fresh 2");
    rig.at(SECOND).await;
    assert_eq!(rig.keys(), ["fails", "fresh 1", "fresh 2", "fails"]);
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
async fn less_urgent_keys_do_not_starve_though_fresh_ones_never_end() {
    let (queue, runs, _tasks) = start(&Arc::new(Semaphore::new(1)), always_open());
    queue.add("bulk", Priority::Bulk);
    queue.add("update", Priority::Update);
    for _ in 0..600 {
        queue.add_all(["a", "b"], Priority::Fresh);
        sleep(SECOND).await;
    }
    let runs = names(&runs);
    for (key, most) in [("update", 8), ("bulk", 64)] {
        let at = runs.iter().position(|run| *run == key);
        assert!(at.is_some_and(|at| at < most), "{key}: {at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_takes_no_slot() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let slots = Arc::new(Semaphore::new(1));
    let (queue, _runs, _tasks) = start(&slots, Gate::new(gate, |open| *open));
    queue.add("a", Priority::Fresh);
    sleep(SECOND).await;
    assert_eq!(slots.available_permits(), 1);
    open.send(true).unwrap();
    sleep(MS).await;
    assert_eq!(slots.available_permits(), 0);
}
