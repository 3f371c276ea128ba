//! Keys that are handed out together.

use super::*;
use crate::queue::Taken;

/// Each run so far: its time in milliseconds, and its keys.
type Runs = Arc<Mutex<Vec<(u128, Vec<&'static str>)>>>;

/// A queue at work with one worker, with the n-th run in the hands of `run`.
fn start<Fut: Future<Output = ()> + Send + 'static>(
    run: impl Fn(usize, Vec<Taken<&'static str>>) -> Fut + Send + Sync + 'static,
) -> (Queue<&'static str>, Runs, JoinSet<()>) {
    let (queue, runs) = (queue(), Runs::default());
    let (at_work, run_log) = (queue.clone(), Arc::clone(&runs));
    let start = Instant::now();
    let handler = move |work| {
        let keys = match work {
            Work::One(taken, _) => vec![taken],
            Work::Batch(keys, ()) => keys,
        };
        let mut run_log = run_log.lock();
        let names = keys.iter().map(|taken| *taken.key()).collect();
        run_log.push((start.elapsed().as_millis(), names));
        run(run_log.len() - 1, keys)
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let stop = CancellationToken::new();
        let gate = always_open();
        at_work.run(1, AtOnce, gate, stop, handler).await;
    });
    (queue, runs, tasks)
}

async fn done_after(length: Duration, keys: Vec<Taken<&'static str>>) {
    sleep(length).await;
    for taken in keys {
        taken.finish(Outcome::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_added_together_run_together_beside_the_others() {
    let (queue, runs, _tasks) = start(|_, keys| done_after(100 * MS, keys));
    queue.add_all(["busy", "a"], Priority::Fresh);
    queue.add_all(["b", "c"], Priority::Bulk);
    // The first is in flight and runs again afterwards, one keeps its higher priority, one is raised.
    sleep(10 * MS).await;
    queue.add_all(["busy", "a", "b", "d", "e"], Priority::Batch);
    sleep(SECOND).await;
    let expected = [
        (0, vec!["busy"]),
        (10, vec!["b", "d", "e"]),
        (100, vec!["a"]),
        (100, vec!["busy"]),
        (200, vec!["c"]),
    ];
    assert_eq!(*runs.lock(), expected);
}

/// A key that is slow holds back no other.
#[tokio::test(start_paused = true)]
async fn each_key_of_a_batch_ends_by_itself() {
    let (queue, runs, _tasks) = start(|nth, mut keys| async move {
        let slow = (nth == 0).then(|| keys.remove(0));
        for (taken, outcome) in keys.into_iter().zip([
            Outcome::Done,
            Outcome::Retry,
            Outcome::Retry,
            Outcome::RunAgain(Priority::Fresh),
        ]) {
            taken.finish(if nth == 0 { outcome } else { Outcome::Done });
        }
        sleep(SECOND).await;
        drop(slow);
    });
    queue.add_all(
        ["slow", "done", "fails", "fails too", "again"],
        Priority::Batch,
    );
    sleep(100 * MS).await;
    queue.add_all(["slow", "done"], Priority::Batch);
    sleep(1500 * MS).await;
    let expected = [
        (0, vec!["slow", "done", "fails", "fails too", "again"]),
        (0, vec!["again"]),
        // The back-off of each is the same, and so is its time.
        (5, vec!["fails", "fails too"]),
        (100, vec!["done"]),
        (1000, vec!["slow"]),
    ];
    assert_eq!(*runs.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_those_keys_of_a_batch_that_are_not_done() {
    let (queue, runs, _tasks) = start(|nth, mut keys| async move {
        if nth == 0 {
            keys.remove(0).finish(Outcome::Done);
            panic!("expected by the test");
        }
        done_after(MS, keys).await;
    });
    queue.add_all(["done", "a", "b"], Priority::Batch);
    sleep(SECOND).await;
    assert_eq!(
        *runs.lock(),
        [(0, vec!["done", "a", "b"]), (5, vec!["a", "b"])]
    );
    assert_eq!(queue.shared.panics.get(), 2);
    assert!(queue.shared.state.lock().is_empty());
}
