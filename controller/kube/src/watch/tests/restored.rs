//! etcd goes back in time under a watch.

use outrigger_core::event::EventContent;

use super::*;

fn bookmark(version: u64) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    json!({"type": "BOOKMARK", "object": {"kind": "Node", "metadata": metadata}})
}

/// A watch after a list of version 1000, then a list of version `then` with another node. Events are sent to the first watch.
fn restored(then: u64) -> (Fixture, futures::channel::mpsc::UnboundedSender<Value>) {
    let (events, watch) = scripted::live_watch();
    let watch = Mutex::new(Some(watch));
    let fixture = Fixture::start(move |number, uri| match (number, is_list(uri)) {
        (0, true) => Some(list(1000, "", &["n1", "n3"])),
        (_, true) => Some(list(then, "", &["n1", "n4"])),
        (..) => watch.lock().take(),
    });
    (fixture, events)
}

const AFTER: [&str; 2] = ["n1", "n4"];

#[tokio::test(start_paused = true)]
async fn a_bookmark_that_goes_back_has_all_objects_listed_again_and_doubted() {
    for event in [
        bookmark(400),
        json!({"type": "MODIFIED", "object": node("n1", 400)}),
    ] {
        let (fixture, events) = restored(410);
        fixture.until(|it| it.names().contains("n3")).await;
        let mut doubts = fixture.sight.doubts();
        events.unbounded_send(event).unwrap();
        fixture.until(|it| it.names().contains("n4")).await;
        assert_eq!(fixture.names(), BTreeSet::from(AFTER.map(str::to_owned)));
        assert!(doubts.has_changed().unwrap());
        let doubt = doubts.borrow_and_update().clone().unwrap();
        assert_eq!(&*doubt.event.reason, "EtcdRestored");
        assert!(doubt.event.message.contains("410"), "{:?}", doubt.event);
        fixture.until(|it| it.requests.lock().len() > 3).await;
        assert!(!doubts.has_changed().unwrap(), "once");
    }
}

/// Another API server may be behind; a list is as new as etcd.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_newer_shows_that_etcd_has_not_gone_back() {
    let (fixture, events) = restored(1001);
    fixture.until(|it| it.names().contains("n3")).await;
    let doubts = fixture.sight.doubts();
    events.unbounded_send(bookmark(999)).unwrap();
    fixture.until(|it| it.names().contains("n4")).await;
    assert!(!doubts.has_changed().unwrap());
}

/// The renewal of the Lease, or the watch of other objects, has shown it.
#[tokio::test(start_paused = true)]
async fn a_doubt_of_another_part_has_all_objects_listed_again_once() {
    let (fixture, events) = restored(410);
    fixture.until(|it| it.names().contains("n3")).await;
    let mut doubts = fixture.sight.doubts();
    fixture.sight.doubt(EventContent::normal("Resync", "asked"));
    doubts.borrow_and_update();
    fixture.until(|it| it.names().contains("n4")).await;
    assert_eq!(fixture.lists(), 2);
    assert!(!doubts.has_changed().unwrap(), "once for all");
    drop(events);
}
