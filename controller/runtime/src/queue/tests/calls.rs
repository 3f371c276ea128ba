//! Keys that wait for the slot of their call.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::*;

/// Calls that need one of a few slots.
struct Slots(Arc<Semaphore>);

impl Calls for Slots {
    type Slot = OwnedSemaphorePermit;

    fn has_room(&self, _: Priority, _: impl Fn(Priority) -> usize) -> bool {
        true
    }

    fn slot(&self) -> BoxFuture<'static, OwnedSemaphorePermit> {
        let slots = Arc::clone(&self.0);
        Box::pin(async { slots.acquire_owned().await.unwrap() })
    }
}

type Runs = Arc<Mutex<Vec<(u128, &'static str)>>>;

/// A queue at work whose keys need a call of a second each. Keys that begin with `no` need no call.
fn start(slots: usize) -> (Queue<&'static str>, Runs, JoinSet<()>) {
    let (queue, runs) = (queue(), Runs::default());
    let (at_work, run_log) = (queue.clone(), Arc::clone(&runs));
    let start = Instant::now();
    let handler = move |taken: Taken<&'static str>, slot: Option<OwnedSemaphorePermit>| {
        let run_log = Arc::clone(&run_log);
        async move {
            let needs_call = !taken.key().starts_with("no");
            if slot.is_none() && needs_call {
                let call = taken.priority().call();
                return taken.finish(Outcome::RunAgain(call));
            }
            run_log
                .lock()
                .push((start.elapsed().as_millis(), *taken.key()));
            if needs_call {
                sleep(SECOND).await;
            }
            taken.finish(Outcome::Done);
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let slots = Slots(Arc::new(Semaphore::new(slots)));
        let stop = CancellationToken::new();
        at_work.run(1, slots, always_open(), stop, handler).await;
    });
    (queue, runs, tasks)
}

fn names(runs: &Runs) -> Vec<&'static str> {
    runs.lock().iter().map(|(_, key)| *key).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_slot_is_for_the_most_urgent_call_that_waits_at_that_time() {
    let (queue, runs, _tasks) = start(1);
    queue.add_all(["bulk 1", "bulk 2"], Priority::Bulk);
    queue.add_all(["update 1", "update 2"], Priority::Update);
    sleep(100 * MS).await;
    queue.add("fresh", Priority::Fresh);
    sleep(20 * SECOND).await;
    let expected = ["update 1", "fresh", "update 2", "bulk 1", "bulk 2"];
    assert_eq!(names(&runs), expected);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_needs_no_call_waits_for_none() {
    let (queue, runs, _tasks) = start(1);
    queue.add_all(["a", "b", "c"], Priority::Fresh);
    sleep(100 * MS).await;
    queue.add("no call", Priority::Bulk);
    sleep(MS).await;
    assert_eq!(runs.lock().last(), Some(&(100, "no call")));
}

#[tokio::test(start_paused = true)]
async fn less_urgent_calls_do_not_starve_though_fresh_ones_never_end() {
    let (queue, runs, _tasks) = start(1);
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
    let (queue, calls) = (queue(), Slots(Arc::clone(&slots)));
    queue.add("a", Priority::FreshCall);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let stop = CancellationToken::new();
        let handler = |taken: Taken<&'static str>, slot: Option<_>| async move {
            let _slot = slot;
            sleep(SECOND).await;
            taken.finish(Outcome::Done);
        };
        queue
            .run(1, calls, Gate::new(gate, |open| *open), stop, handler)
            .await;
    });
    sleep(SECOND).await;
    assert_eq!(slots.available_permits(), 1);
    open.send(true).unwrap();
    sleep(MS).await;
    assert_eq!(slots.available_permits(), 0);
}
