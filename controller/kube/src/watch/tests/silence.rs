//! Watches that are accepted and send nothing.

use futures::channel::mpsc::UnboundedSender;

use super::*;

/// A fixture whose watches stay open until their senders, which come with it, are dropped. `lists`
/// answers the lists, by their number.
fn accepted(
    lists: impl Fn(usize) -> ScriptedAnswer + Send + 'static,
) -> (Fixture, Arc<Mutex<Vec<UnboundedSender<Value>>>>) {
    let open = Arc::new(Mutex::new(Vec::new()));
    let watches = Arc::clone(&open);
    let listed = Mutex::new(0);
    let fixture = Fixture::start(move |_, uri| {
        if is_list(uri) {
            let mut listed = listed.lock();
            *listed += 1;
            return Some(lists(*listed));
        }
        let (events, watch) = scripted::live_watch();
        watches.lock().push(events);
        Some(watch)
    });
    (fixture, open)
}

fn bookmark(version: u64) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    let mark = json!({"kind": "Node", "apiVersion": "v1", "metadata": metadata});
    json!({"type": "BOOKMARK", "object": mark})
}

/// Seconds of the paused clock, in each of which `holds`.
async fn always(seconds: u64, holds: impl Fn() -> bool) {
    for second in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(holds(), "not after {second} s");
    }
}

/// An API server need not send bookmarks, so upstream, too, waits as long as nothing changes.
#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_silent_is_ready_and_lists_again_until_it_says_something() {
    let (fixture, open) = accepted(|_| list(1, "", &["a"]));
    always(1810, || fixture.health.check().is_ok()).await;
    let lists = || fixture.lists();
    // The first one, and one each 150 s.
    assert_eq!(lists(), 1 + 12);
    let last = open.lock().last().cloned().unwrap();
    last.unbounded_send(bookmark(2)).unwrap();
    always(130, || lists() == 13).await;
}

#[tokio::test(start_paused = true)]
async fn changes_missed_by_a_silent_watch_are_found_by_the_list() {
    let (fixture, _open) = accepted(|number| match number {
        1 => list(1, "", &["a", "b"]),
        _ => list(2, "", &["a"]),
    });
    tokio::time::sleep(Duration::from_secs(155)).await;
    assert_eq!(fixture.names(), ["a"].map(String::from).into());
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_makes_unready_where_the_list_fails_too() {
    let (fixture, _open) = accepted(|number| match number {
        1 => list(1, "", &["a"]),
        _ => scripted::refusal(503, "ServiceUnavailable"),
    });
    always(205, || fixture.health.check().is_ok()).await;
    fixture.until(|f| f.health.check().is_err()).await;
    let broken = fixture.health.check().unwrap_err();
    assert!(broken.contains("cannot watch nodes for 60 s: "), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_answered_makes_unready() {
    let fixture = Fixture::start(|number, _| (number == 0).then(|| list(1, "", &["a"])));
    always(205, || fixture.health.check().is_ok()).await;
    fixture.until(|f| f.health.check().is_err()).await;
    let broken = fixture.health.check().unwrap_err();
    assert!(broken.contains("did not answer within 150 s"), "{broken}");
}

/// After one that was silent, too.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_with_bookmarks_is_always_ready() {
    let (fixture, open) = accepted(|_| list(1, "", &["a"]));
    fixture.until(|f| f.requests.lock().len() == 4).await;
    for version in 2..20 {
        for _ in 0..75 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(fixture.health.check(), Ok(()));
        }
        let last = open.lock().last().cloned();
        last.unwrap().unbounded_send(bookmark(version)).unwrap();
        // The API server ends a watch after its time.
        if version % 4 == 0 {
            open.lock().clear();
        }
    }
    assert_eq!(fixture.requests.lock().len(), 8);
}
