use std::{
    sync::{Arc, Barrier, mpsc},
    thread,
};

use outrigger_core::node::NodeView;
use parking_lot::Mutex;
use serde_json::json;

use super::*;

mod size;

fn node(name: &str, uid: &str, version: u64, label: &str) -> NodeView {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": uid, "resourceVersion": version.to_string(),
            "labels": {"l": label},
        },
    }))
    .unwrap()
}

/// A store and the changes that it reported.
fn recorded() -> (Store<NodeView>, Arc<Mutex<Vec<String>>>) {
    let store = Store::default();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&changes);
    store.subscribe(move |change: &Change<'_, NodeView>, origin| {
        let text = match change {
            Change::Added(new) => format!("added {} {}", new.name, new.uid),
            Change::Updated(old, new) => {
                format!(
                    "updated {} {}→{}",
                    new.name, old.resource_version, new.resource_version
                )
            }
            Change::Deleted(old) => format!("deleted {} {}", old.name, old.uid),
        };
        log.lock().push(format!("{text} {origin:?}"));
    });
    (store, changes)
}

#[test]
fn events_come_once_and_older_versions_are_dropped() {
    let (store, changes) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::List);
    store.apply(node("a", "1", 10, "x"), Origin::Watch);
    store.apply(node("a", "1", 9, "old"), Origin::Watch);
    store.apply(node("a", "1", 11, "y"), Origin::Watch);
    store.delete("a", Origin::Watch);
    store.delete("a", Origin::Watch);
    assert_eq!(
        *changes.lock(),
        [
            "added a 1 List",
            "updated a 10→11 Watch",
            "deleted a 1 Watch"
        ]
    );
}

/// Stores our write to the first node `a`.
fn ours(store: &Store<NodeView>, version: u64) -> Option<Arc<NodeView>> {
    let text = version.to_string();
    store.written("a", "1", &text, None, |held| {
        let theirs = held.labels.get("l").filter(|label| *label == "both");
        node("a", "1", version, theirs.unwrap_or("ours"))
    })
}

#[test]
fn a_write_of_ours_is_not_undone_by_a_late_watch_and_hides_nothing_of_others() {
    let (store, changes) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::List);
    ours(&store, 12);
    // Another client wrote version 11 between; the watch brings it, then ours with theirs under it.
    store.apply(node("a", "1", 11, "theirs"), Origin::Watch);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("ours"));
    store.apply(node("a", "1", 12, "both"), Origin::Watch);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("both"));
    assert_eq!(
        *changes.lock(),
        [
            "added a 1 List",
            "updated a 10→12 Write",
            "updated a 12→12 Watch"
        ]
    );
}

#[test]
fn a_write_of_ours_that_the_watch_was_faster_with_hides_nothing_of_others_either() {
    let (store, _) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::List);
    store.apply(node("a", "1", 12, "both"), Origin::Watch);
    ours(&store, 12);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("both"));
}

#[test]
fn a_view_is_exact_in_what_was_read_of_it() {
    let (store, _) = recorded();
    let is_exact = |subresource| store.is_exact(&store.get("a").unwrap(), subresource);
    let write = |version: &str, presumed| {
        store.written("a", "1", version, presumed, |held| NodeView {
            resource_version: version.into(),
            ..held.clone()
        });
    };
    store.apply(node("a", "1", 10, "x"), Origin::List);
    assert!(is_exact("") && is_exact("/status"));
    assert!(!store.is_exact(&node("a", "1", 10, "y"), ""));
    // An admission webhook may have changed more than the write did.
    write("11", Some(""));
    assert!(!is_exact("") && is_exact("/status"));
    write("12", Some("/status"));
    assert!(!is_exact("") && !is_exact("/status"));
    store.apply(node("a", "1", 11, "x"), Origin::Watch);
    assert!(!is_exact(""), "that was before");
    store.apply(node("a", "1", 12, "x"), Origin::Watch);
    assert!(is_exact("") && is_exact("/status"));
    write("13", None);
    assert!(!is_exact("") && !is_exact("/status"));
    store.refresh(&Arc::new(node("a", "1", 13, "x")));
    assert!(is_exact(""));
    write("14", None);
    store.delete("a", Origin::Watch);
    store.apply(node("a", "2", 15, "x"), Origin::Watch);
    assert!(is_exact(""));
}

/// A loop would keep something of an object that is gone.
#[test]
fn handlers_see_a_deletion_after_the_write_that_was_before_it() {
    let store = Store::default();
    let (tell, deletion) = mpsc::channel();
    let deletion = Mutex::new(deletion);
    let both = Arc::new(Barrier::new(2));
    let changes = Arc::new(Mutex::new(Vec::new()));
    let (meet, log) = (Arc::clone(&both), Arc::clone(&changes));
    store.subscribe(move |change: &Change<'_, NodeView>, _| {
        if let Change::Updated(..) = change {
            meet.wait();
            // The other thread has the time to be faster.
            let _ = deletion.lock().recv_timeout(Duration::from_millis(100));
        }
        log.lock().push(matches!(change, Change::Deleted(_)));
    });
    store.apply(node("a", "1", 10, "x"), Origin::List);
    thread::scope(|scope| {
        scope.spawn(|| ours(&store, 12));
        both.wait();
        store.delete("a", Origin::Watch);
        let _ = tell.send(());
    });
    assert_eq!(*changes.lock(), [false, false, true]);
}

/// The API server answers the write that ends an object without a new version.
#[test]
fn a_write_of_ours_counts_without_a_new_version_too() {
    let (store, changes) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::List);
    ours(&store, 10);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("ours"));
    ours(&store, 10);
    assert_eq!(
        *changes.lock(),
        ["added a 1 List", "updated a 10→10 Write"],
        "the second says nothing new"
    );
    ours(&store, 9);
    assert_eq!(store.get("a").unwrap().resource_version, "10".into());
}

#[test]
fn a_write_of_ours_brings_no_deleted_or_other_object_back() {
    let (store, _) = recorded();
    ours(&store, 12);
    assert!(store.get("a").is_none());
    store.apply(node("a", "2", 20, "new"), Origin::Watch);
    ours(&store, 30);
    assert_eq!(store.get("a").unwrap().uid(), "2");
}

#[test]
fn a_relist_finds_what_was_deleted_unseen() {
    let (store, changes) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::List);
    store.apply(node("b", "2", 10, "x"), Origin::List);
    assert!(!store.is_synced());
    store.finish_list(|_| true);
    assert!(store.is_synced());
    changes.lock().clear();

    store.apply(node("a", "9", 20, "again"), Origin::List);
    store.finish_list(|key| key == "a");
    assert_eq!(
        *changes.lock(),
        ["deleted a 1 List", "added a 9 List", "deleted b 2 List"]
    );
    assert_eq!(store.len(), 1);
}

/// After a restore of etcd versions are lower than before.
#[test]
fn a_full_list_counts_whatever_its_versions_are() {
    let (store, changes) = recorded();
    store.apply(node("a", "1", 1000, "lost"), Origin::Watch);
    store.apply(node("b", "2", 1001, "lost"), Origin::Watch);
    changes.lock().clear();
    store.begin_list();
    store.apply(node("a", "1", 10, "restored"), Origin::List);
    store.apply(node("b", "2", 11, "restored"), Origin::List);
    store.finish_list(|_| true);
    assert_eq!(
        *changes.lock(),
        ["updated a 1000→10 List", "updated b 1001→11 List"]
    );
    store.apply(node("a", "1", 12, "new"), Origin::Watch);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("new"));
}

/// The list shows what was there when it began.
#[test]
fn a_write_of_ours_beside_a_full_list_is_not_undone_by_it() {
    let (store, _) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::Watch);
    store.apply(node("b", "2", 10, "x"), Origin::Watch);
    store.begin_list();
    ours(&store, 12);
    store.refresh(&Arc::new(node("b", "2", 13, "read")));
    store.apply(node("a", "1", 10, "x"), Origin::List);
    store.apply(node("b", "2", 10, "x"), Origin::List);
    store.finish_list(|_| true);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("ours"));
    assert_eq!(store.get("b").unwrap().labels.get("l"), Some("read"));
    // The next one has them.
    store.begin_list();
    store.apply(node("a", "1", 9, "restored"), Origin::List);
    assert_eq!(store.get("a").unwrap().labels.get("l"), Some("restored"));
}

#[tokio::test(start_paused = true)]
async fn resyncs_come_at_a_steady_period_of_one_to_two_times_the_least() {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    let (store, changes) = recorded();
    store.apply(node("a", "1", 10, "x"), Origin::Watch);
    changes.lock().clear();
    let (store, stop) = (Arc::new(store), CancellationToken::new());
    let hour = Duration::from_hours(1);
    let mut running = tokio::task::JoinSet::new();
    running.spawn(Arc::clone(&store).keep_resyncing(hour, stop.clone()));
    running.spawn(store.keep_resyncing(Duration::ZERO, stop.clone()));
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert_eq!(changes.lock().len(), 0);
    tokio::time::sleep(hour + Duration::from_secs(1)).await;
    assert_eq!(changes.lock().len(), 1);
    tokio::time::sleep(hour * 20).await;
    assert!((11..=21).contains(&changes.lock().len()));
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

#[test]
fn an_object_read_beside_the_watch_makes_an_event_and_brings_nothing_back() {
    let (store, changes) = recorded();
    let read = |uid, version, label| Arc::new(node("a", uid, version, label));
    store.refresh(&read("1", 10, "x"));
    assert!(store.is_empty());
    store.apply(node("a", "1", 10, "x"), Origin::Watch);
    store.refresh(&read("1", 10, "x"));
    store.refresh(&read("1", 12, "y"));
    store.refresh(&read("1", 11, "old"));
    store.refresh(&read("2", 13, "another"));
    assert_eq!(&*store.get("a").unwrap().resource_version, "12");
    assert_eq!(
        *changes.lock(),
        ["added a 1 Watch", "updated a 10→12 Watch"]
    );
}
