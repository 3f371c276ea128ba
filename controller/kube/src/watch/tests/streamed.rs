//! Watches that begin with all objects, as kube-apiserver sends them and as it does not.

use super::*;

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn added(name: &str, version: u64) -> Value {
    event("ADDED", &node(name, version))
}

/// A bookmark; with the mark that ends the objects, or without.
fn bookmark(version: u64, is_end: bool) -> Value {
    let mut mark = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}});
    if is_end {
        mark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    event("BOOKMARK", &mark)
}

fn is_stream(uri: &str) -> bool {
    uri.contains("sendInitialEvents=true")
}

/// The requests as `stream`, `page` or `watch` with its version.
fn requests(fixture: &Fixture) -> Vec<String> {
    let requests = fixture.requests.lock();
    let short = |uri: &String| match uri.split_once("resourceVersion=") {
        _ if is_stream(uri) => "stream".to_owned(),
        Some((_, rest)) => format!("watch {}", rest.split('&').next().unwrap()),
        None => "page".to_owned(),
    };
    requests.iter().map(|(_, uri)| short(uri)).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Lets the watch run for so long.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn one_watch_brings_all_objects_and_their_changes() {
    let (events, watch) = scripted::live_watch();
    let watch = Mutex::new(Some(watch));
    let fixture = Fixture::streaming(move |_, uri| {
        if is_stream(uri) {
            assert!(uri.contains("resourceVersionMatch=NotOlderThan"), "{uri}");
            assert!(uri.contains("allowWatchBookmarks=true"), "{uri}");
            assert!(!uri.contains("resourceVersion="), "a quorum read: {uri}");
        }
        watch.lock().take()
    });
    let send = |event: Value| events.unbounded_send(event).unwrap();
    send(added("n1", 5));
    send(added("n2", 9));
    // An API server before 1.34 may send them in between, and the same object again.
    send(added("n2", 9));
    send(event("DELETED", &node("n1", 10)));
    pass(Duration::from_secs(1)).await;
    assert!(!fixture.store.is_synced());
    assert_eq!(
        fixture.health.check().unwrap_err(),
        "nodes have not been listed yet"
    );
    send(bookmark(12, true));
    fixture.until(|f| f.store.is_synced()).await;
    assert_eq!(fixture.names(), names(&["n2"]));
    assert_eq!(fixture.health.check(), Ok(()));
    send(added("n3", 13));
    fixture.until(|f| f.names() == names(&["n2", "n3"])).await;
    send(bookmark(20, false));
    pass(Duration::from_secs(30)).await;
    drop(events);
    fixture.until(|f| f.requests.lock().len() == 2).await;
    assert_eq!(requests(&fixture), ["stream", "watch 20"]);
    let lists = fixture
        .metrics
        .lists
        .get_or_create(&[("resource", "nodes")])
        .get();
    assert_eq!(lists, 1);
}

/// The objects are in the order of their keys, and only the bookmark shows a version to go on from.
#[tokio::test(start_paused = true)]
async fn the_version_of_the_bookmark_counts_not_that_of_the_last_object() {
    let fixture = Fixture::streaming(|number, _| {
        (number == 0)
            .then(|| scripted::watch(vec![added("n1", 40), added("n2", 3), bookmark(50, true)]))
    });
    fixture.until(|f| f.requests.lock().len() == 2).await;
    assert_eq!(requests(&fixture), ["stream", "watch 50"]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_new_stream_does_not_show_are_gone() {
    let mut fixture = Fixture::streaming(|number, _| {
        Some(match number {
            0 => scripted::watch(vec![
                added("a", 1),
                added("b", 1),
                bookmark(2, true),
                event("ERROR", &scripted::status(410, "Expired")),
            ]),
            1 => scripted::watch(vec![added("a", 1), bookmark(50, true)]),
            _ => return None,
        })
    });
    assert_eq!(fixture.deleted.recv().await.as_deref(), Some("b"));
    fixture.until(|f| f.requests.lock().len() == 3).await;
    assert_eq!(requests(&fixture), ["stream", "stream", "watch 50"]);
    assert_eq!(fixture.names(), names(&["a"]));
}

/// How a stream fails, and what it has sent before.
type Broken = (&'static str, fn() -> Option<ScriptedAnswer>);

const BROKEN: [Broken; 8] = [
    ("it is off", || Some(scripted::streams_no_lists())),
    ("an API server before 1.27", || {
        Some(scripted::refused(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch",
        ))
    }),
    ("the watch cache is behind", || {
        Some(scripted::refusal(504, "Timeout"))
    }),
    ("no answer begins", || None),
    ("it ends before the bookmark", || {
        Some(scripted::watch(vec![added("a", 1)]))
    }),
    ("it breaks before the bookmark", || {
        let gone = event("ERROR", &scripted::status(500, "InternalError"));
        Some(scripted::watch(vec![added("a", 1), gone]))
    }),
    ("it expires before the bookmark", || {
        let expired = event("ERROR", &scripted::status(410, "Expired"));
        Some(scripted::watch(vec![added("a", 1), expired]))
    }),
    // A server that ignores the query, and begins with the objects or with nothing.
    ("its bookmark has no mark", || {
        Some(scripted::watch(vec![added("a", 1), bookmark(9, false)]))
    }),
];

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_come_to_its_end_removes_nothing_and_is_followed_by_pages() {
    for (how, broken) in BROKEN {
        // First as the start of the store, then as its second list.
        for first in [0, 1] {
            let fixture = Fixture::streaming(move |number, uri| match uri {
                _ if number < first => {
                    let expired = event("ERROR", &scripted::status(410, "Expired"));
                    let events = vec![added("a", 1), added("b", 1), bookmark(2, true), expired];
                    Some(scripted::watch(events))
                }
                uri if is_stream(uri) => broken(),
                uri if is_list(uri) && uri.contains("continue=next") => None,
                uri if is_list(uri) => Some(list(60, "next", &["a"])),
                _ => None,
            });
            fixture
                .until(|f| f.requests.lock().len() == first + 3)
                .await;
            let all = requests(&fixture);
            assert_eq!(all[first..], ["stream", "page", "page"], "{how}");
            assert_eq!(fixture.store.is_synced(), first == 1, "{how}");
            let objects: &[&str] = if first == 0 { &["a"] } else { &["a", "b"] };
            assert_eq!(fixture.names(), names(objects), "{how}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stands_still_is_given_up_for_pages() {
    let (events, stream) = scripted::live_watch();
    let stream = Mutex::new(Some(stream));
    let fixture = Fixture::streaming(move |_, uri| match uri {
        uri if is_stream(uri) => stream.lock().take(),
        uri if is_list(uri) => Some(list(7, "", &["a", "b"])),
        _ => None,
    });
    for _ in 0..3 {
        events.unbounded_send(added("a", 1)).unwrap();
        pass(STALL.mul_f64(0.9)).await;
        assert_eq!(requests(&fixture), ["stream"]);
    }
    fixture.until(|f| f.store.is_synced()).await;
    fixture.until(|f| f.requests.lock().len() == 3).await;
    assert_eq!(requests(&fixture), ["stream", "page", "watch 7"]);
    assert_eq!(fixture.names(), names(&["a", "b"]));
}

/// An API server that takes the request for any watch, and sends no bookmarks.
#[tokio::test(start_paused = true)]
async fn a_stream_without_an_end_is_given_up_for_pages() {
    let (events, stream) = scripted::live_watch();
    let stream = Mutex::new(Some(stream));
    let fixture = Fixture::streaming(move |_, uri| match uri {
        uri if is_stream(uri) => stream.lock().take(),
        uri if is_list(uri) => Some(list(7, "", &["a"])),
        _ => None,
    });
    let began = Instant::now();
    while !fixture.store.is_synced() {
        assert!(began.elapsed() <= LONGEST_STREAM + Duration::from_secs(1));
        let _ = events.unbounded_send(added("a", 1));
        pass(Duration::from_millis(500)).await;
    }
    assert!(began.elapsed() >= LONGEST_STREAM);
    assert_eq!(requests(&fixture), ["stream", "page", "watch 7"]);
}

/// The next list is tried as a stream again: the API server may be another by then.
#[tokio::test(start_paused = true)]
async fn after_pages_the_next_list_is_a_stream_again() {
    let fixture = Fixture::streaming(|number, _| {
        Some(match number {
            0 => scripted::streams_no_lists(),
            1 => list(7, "", &["a"]),
            2 => scripted::refusal(410, "Expired"),
            3 => scripted::watch(vec![added("b", 8), bookmark(9, true)]),
            _ => return None,
        })
    });
    fixture.until(|f| f.requests.lock().len() == 5).await;
    assert_eq!(
        requests(&fixture),
        ["stream", "page", "watch 7", "stream", "watch 9"]
    );
    assert_eq!(fixture.names(), names(&["b"]));
}

/// kube-apiserver refuses watches as long as its cache is not filled.
#[tokio::test(start_paused = true)]
async fn an_api_server_without_time_is_asked_when_it_says() {
    let fixture = Fixture::streaming(|number, _| {
        let mut busy = scripted::refusal(429, "TooManyRequests");
        busy.headers_mut()
            .insert("retry-after", "25".parse().unwrap());
        Some(match number {
            0 | 1 => busy,
            2 => scripted::watch(vec![added("a", 1), bookmark(9, true)]),
            _ => return None,
        })
    });
    fixture.until(|f| f.store.is_synced()).await;
    assert_eq!(requests(&fixture)[..3], ["stream", "page", "stream"]);
    let requests = fixture.requests.lock();
    for pair in requests[..3].windows(2) {
        let pause = pair[1].0 - pair[0].0;
        assert!((25.0..26.0).contains(&pause.as_secs_f64()), "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_came_and_one_without_a_key_may_be_any() {
    let odd = |name: &str| {
        let mut odd = node(name, 3);
        odd["spec"] = json!({"taints": 7});
        event("ADDED", &odd)
    };
    let expired = || event("ERROR", &scripted::status(410, "Expired"));
    let fixture = Fixture::streaming(move |number, _| {
        Some(match number {
            0 => scripted::watch(vec![
                added("a", 1),
                added("b", 1),
                bookmark(2, true),
                expired(),
            ]),
            1 => {
                let unnamed = event("ADDED", &json!({"spec": 1}));
                scripted::watch(vec![odd("a"), unnamed, bookmark(3, true), expired()])
            }
            2 => scripted::refusal(503, "ServiceUnavailable"),
            3 => {
                let items = [&odd("a")["object"], &node("c", 4)].map(Value::clone);
                let body = json!({"metadata": {"resourceVersion": "5"}, "items": items});
                scripted::json(200, &body)
            }
            _ => return None,
        })
    });
    fixture.until(|f| f.requests.lock().len() == 3).await;
    assert_eq!(fixture.names(), names(&["a", "b"]));
    fixture.until(|f| f.requests.lock().len() == 5).await;
    assert_eq!(fixture.names(), names(&["a", "c"]));
}
