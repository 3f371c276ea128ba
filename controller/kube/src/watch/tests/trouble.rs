//! Watches that are accepted and send nothing, and objects that cannot be decoded.

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

/// A node whose taints cannot be decoded.
fn odd(name: &str, uid: &str, version: u64) -> Value {
    json!({"kind": "Node", "spec": {"taints": 7}, "metadata": {
        "name": name, "uid": uid, "resourceVersion": version.to_string(),
    }})
}

fn undecodable(fixture: &Fixture) -> i64 {
    fixture.metrics.undecodable.of(["nodes"]).get()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_keeps_its_view_and_stops_no_other() {
    let (events, watch) = scripted::live_watch();
    let watch = Mutex::new(Some(watch));
    let fixture = Fixture::start(move |_, uri| {
        if !is_list(uri) {
            assert!(uri.contains("resourceVersion=7"), "{uri}");
            return watch.lock().take();
        }
        let items = [node("n1", 7), odd("n2", "uid-n2", 7), node("n3", 7)];
        let body = json!({"metadata": {"resourceVersion": "7"}, "items": items});
        Some(scripted::json(200, &body))
    });
    fixture.until(|f| f.requests.lock().len() == 2).await;
    assert!(fixture.store.is_synced());
    assert_eq!(fixture.names(), ["n1", "n3"].map(String::from).into());
    assert_eq!(undecodable(&fixture), 1);

    let send = |kind: &str, object: Value| {
        let event = json!({"type": kind, "object": object});
        events.unbounded_send(event).unwrap();
    };
    send("MODIFIED", odd("n1", "uid-n1", 8));
    send("MODIFIED", node("n2", 9));
    send("ADDED", node("n4", 10));
    let all = ["n1", "n2", "n3", "n4"].map(String::from);
    fixture.until(|f| f.names() == all.clone().into()).await;
    assert_eq!(&*fixture.store.get("n1").unwrap().resource_version, "7");
    assert_eq!(undecodable(&fixture), 1);

    // Another object of the same name: the view was of one that is gone.
    send("ADDED", odd("n1", "another", 11));
    fixture.until(|f| f.store.get("n1").is_none()).await;
    send("DELETED", odd("n3", "uid-n3", 12));
    fixture.until(|f| f.store.get("n3").is_none()).await;
    send("DELETED", odd("n1", "another", 13));
    fixture.until(|f| undecodable(f) == 0).await;
    assert_eq!(fixture.requests.lock().len(), 2, "the watch goes on");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_key_may_be_any_that_a_list_does_not_show() {
    let unnamed = json!({"spec": 1});
    let fixture = Fixture::start(move |number, _| {
        let items = match number {
            0 => vec![node("a", 1), node("b", 1)],
            2 => vec![odd("a", "uid-a", 3), unnamed.clone()],
            4 => vec![odd("a", "uid-a", 3), node("c", 4)],
            _ => return Some(scripted::refusal(410, "Expired")),
        };
        let body = json!({"metadata": {"resourceVersion": "5"}, "items": items});
        Some(scripted::json(200, &body))
    });
    fixture.until(|f| f.requests.lock().len() == 4).await;
    assert_eq!(fixture.names(), ["a", "b"].map(String::from).into());
    fixture.until(|f| f.requests.lock().len() == 6).await;
    assert_eq!(fixture.names(), ["a", "c"].map(String::from).into());
}
