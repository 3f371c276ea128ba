//! Keys that are taken with a slot.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::*;

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
