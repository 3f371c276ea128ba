//! Watches that are accepted and send nothing.

use futures::channel::mpsc::UnboundedSender;

use super::*;

/// A fixture whose watches stay open until their senders, which come with it, are dropped.
fn accepted() -> (Fixture, Arc<Mutex<Vec<UnboundedSender<Value>>>>) {
    let open = Arc::new(Mutex::new(Vec::new()));
    let watches = Arc::clone(&open);
    let fixture = Fixture::start(move |_, uri| {
        if is_list(uri) {
            return Some(list(1, "", &["a"]));
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

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_accepted_and_stays_silent_makes_unready_until_it_says_something() {
    let (fixture, open) = accepted();
    fixture.until(|f| f.requests.lock().len() == 3).await;
    assert_eq!(fixture.health.check(), Ok(()), "one silent watch");
    fixture.until(|f| f.requests.lock().len() == 4).await;
    let silent = fixture.health.check().unwrap_err();
    assert!(silent.contains("has sent nothing for 300 s"), "{silent}");
    fixture.until(|_| open.lock().len() == 3).await;
    assert!(fixture.health.check().is_err(), "it is only accepted");
    open.lock()[2].unbounded_send(bookmark(2)).unwrap();
    fixture.until(|f| f.health.check().is_ok()).await;
}

/// After one watch broke without a word, too.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_with_bookmarks_is_always_ready() {
    let (fixture, open) = accepted();
    fixture.until(|f| f.requests.lock().len() == 3).await;
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
    assert_eq!(fixture.requests.lock().len(), 7);
}
