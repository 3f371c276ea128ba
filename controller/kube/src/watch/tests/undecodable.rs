//! Objects that cannot be decoded.

use super::*;

/// A node whose taints cannot be decoded.
fn odd(name: &str, uid: &str, version: u64) -> Value {
    json!({"kind": "Node", "spec": {"taints": 7}, "metadata": {
        "name": name, "uid": uid, "resourceVersion": version.to_string(),
    }})
}

fn undecodable(fixture: &Fixture) -> (i64, u64) {
    let labels = [("resource", "nodes")];
    let metrics = &fixture.metrics;
    (
        metrics.undecodable.get_or_create(&labels).get(),
        metrics.not_decoded.get_or_create(&labels).get(),
    )
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
    assert_eq!(undecodable(&fixture), (1, 1));

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
    assert_eq!(undecodable(&fixture), (1, 2));

    // Another object of the same name: the view was of one that is gone.
    send("ADDED", odd("n1", "another", 11));
    fixture.until(|f| f.store.get("n1").is_none()).await;
    send("DELETED", odd("n3", "uid-n3", 12));
    fixture.until(|f| f.store.get("n3").is_none()).await;
    send("DELETED", odd("n1", "another", 13));
    fixture.until(|f| undecodable(f).0 == 0).await;
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
