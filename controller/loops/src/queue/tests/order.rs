//! Which key goes when.

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
