//! The traps of watching, each played by a scripted API server (on the paused clock).

use std::collections::BTreeSet;

use futures::FutureExt;
use http::Request;
use kube::client::Body;
use outrigger_core::{
    annotations::ReadAnnotations, event::EventContent, node::NodeView, service::ServiceView,
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::fixture::scripted::{self, ScriptedAnswer};

mod trouble;

fn node(name: &str, version: u64) -> Value {
    json!({"kind": "Node", "metadata": {
        "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
    }})
}

fn list(version: u64, token: &str, names: &[&str]) -> ScriptedAnswer {
    let items: Vec<Value> = names.iter().map(|name| node(name, version)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    scripted::json(
        200,
        &json!({"kind": "NodeList", "metadata": metadata, "items": items}),
    )
}

struct Fixture {
    store: Arc<Store<NodeView>>,
    sight: Sight,
    health: Health,
    metrics: WatchMetrics,
    /// Path and query of each request, when it came.
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
    _task: JoinSet<()>,
}

impl Fixture {
    /// Runs a watch of nodes against `answer`, which gets the number of the request and its URI.
    fn start(answer: impl Fn(usize, &str) -> Option<ScriptedAnswer> + Send + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let client = scripted::client(move |request: Request<Body>| {
            let uri = request.uri().to_string();
            let number = log.lock().len();
            log.lock().push((Instant::now(), uri.clone()));
            match answer(number, &uri) {
                Some(answer) => std::future::ready(answer).boxed(),
                None => std::future::pending().boxed(),
            }
        });
        let store = Arc::new(Store::default());
        let metrics = WatchMetrics::register(&mut Registry::default());
        let sight = Sight::default();
        let health = Health::new(NodeView::RESOURCE, &sight);
        let mut task = JoinSet::new();
        task.spawn(run(
            Api::new(client),
            Arc::clone(&store),
            health.clone(),
            metrics.clone(),
            CancellationToken::new(),
        ));
        Self {
            store,
            sight,
            health,
            metrics,
            requests,
            _task: task,
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.store
            .all()
            .iter()
            .map(|view| view.name.to_string())
            .collect()
    }

    fn lists(&self) -> usize {
        let requests = self.requests.lock();
        requests.iter().filter(|(_, uri)| is_list(uri)).count()
    }

    /// Waits until `holds`, at most ten minutes of the paused clock.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(10);
        while !holds(self) {
            assert!(
                Instant::now() < deadline,
                "requests: {:#?}",
                self.requests.lock()
            );
            tokio::time::advance(Duration::from_millis(10)).await;
            tokio::task::yield_now().await;
        }
    }
}

fn is_list(uri: &str) -> bool {
    !uri.contains("watch=true")
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_the_watch_goes_on_from_its_version() {
    let (events, watch) = scripted::live_watch();
    let watch = Mutex::new(Some(watch));
    let fixture = Fixture::start(move |_, uri| {
        if uri.contains("continue=a%2Bb%3D") {
            return Some(list(7, "", &["n3"]));
        }
        if is_list(uri) {
            return Some(list(7, "a+b=", &["n1", "n2"]));
        }
        assert!(uri.contains("resourceVersion=7"), "{uri}");
        watch.lock().take()
    });
    fixture.until(|f| f.store.is_synced()).await;
    assert_eq!(fixture.names(), ["n1", "n2", "n3"].map(String::from).into());
    events
        .unbounded_send(json!({"type": "ADDED", "object": node("n4", 8)}))
        .unwrap();
    events
        .unbounded_send(json!({"type": "DELETED", "object": node("n1", 9)}))
        .unwrap();
    fixture
        .until(|f| f.names() == ["n2", "n3", "n4"].map(String::from).into())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_stormed() {
    let fixture = Fixture::start(|_, uri| {
        Some(if is_list(uri) {
            list(1, "", &["n1"])
        } else {
            scripted::watch(vec![])
        })
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    let watches = fixture.requests.lock().len() - 1;
    assert!((6..=20).contains(&watches), "{watches} watches in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_its_time_goes_on_at_once_from_the_last_bookmark() {
    let (events, first) = scripted::live_watch();
    let first = Mutex::new(Some(first));
    let fixture = Fixture::start(move |_, uri| {
        if is_list(uri) {
            Some(list(1, "", &["n1"]))
        } else {
            first.lock().take()
        }
    });
    fixture.until(|f| f.requests.lock().len() == 2).await;
    for minute in 1..=4 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let mark = json!({"kind": "Node", "apiVersion": "v1",
            "metadata": {"resourceVersion": (100 + minute).to_string()}});
        events
            .unbounded_send(json!({"type": "BOOKMARK", "object": mark}))
            .unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(events);
    let ended = Instant::now();
    fixture.until(|f| f.requests.lock().len() == 3).await;
    let (at, uri) = fixture.requests.lock()[2].clone();
    assert!(at - ended < Duration::from_millis(50), "{:?}", at - ended);
    assert!(uri.contains("resourceVersion=104"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn a_list_or_watch_that_expires_is_a_new_list_that_forgets_nothing() {
    let fixture = Fixture::start(|number, _| {
        Some(match number {
            0 => list(1, "next", &["a"]),
            // The second page of a list, and the watch.
            1 | 4 => scripted::refusal(410, "Expired"),
            2 => list(2, "next", &["a", "b"]),
            3 => list(2, "", &["c"]),
            5 => list(3, "", &["d"]),
            _ => return None,
        })
    });
    fixture.until(|f| f.store.is_synced()).await;
    assert_eq!(fixture.names(), ["a", "b", "c"].map(String::from).into());
    fixture
        .until(|f| f.names() == ["d"].map(String::from).into())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_is_ready_when_it_is_filled_and_as_long_as_its_watch_works() {
    let (events, watch) = scripted::live_watch();
    let watch = Mutex::new(Some(watch));
    let allowed = Arc::new(Mutex::new(false));
    let is_allowed = Arc::clone(&allowed);
    let fixture = Fixture::start(move |_, uri| match (is_list(uri), *is_allowed.lock()) {
        (_, false) => Some(scripted::refusal(403, "Forbidden")),
        (true, true) => Some(list(1, "", &["a"])),
        (false, true) => watch.lock().take(),
    });
    fixture.until(|f| f.requests.lock().len() > 3).await;
    let refused = fixture.health.check().unwrap_err();
    assert!(
        refused.contains("cannot list nodes: scripted Forbidden"),
        "{refused}"
    );
    *allowed.lock() = true;
    fixture.until(|f| f.health.check().is_ok()).await;

    *allowed.lock() = false;
    drop(events);
    let before = fixture.requests.lock().len();
    fixture
        .until(|f| f.requests.lock().len() > before + 3)
        .await;
    assert_eq!(fixture.health.check(), Ok(()), "an outage of seconds");
    fixture.until(|f| f.health.check().is_err()).await;
    let refused = fixture.health.check().unwrap_err();
    assert!(
        refused.contains("cannot watch nodes for 60 s: "),
        "{refused}"
    );
    assert!(
        Health::new(ServiceView::RESOURCE, &Sight::default())
            .check()
            .is_ok(),
        "it is not wanted"
    );
}

#[test]
fn the_pause_grows_to_its_bound() {
    let grown: Vec<_> = (0..10)
        .map(|failures| pause(failures, 0.0).as_millis())
        .collect();
    assert_eq!(
        grown,
        [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]
    );
    assert_eq!(pause(0, 1.0).as_millis(), 50);
    assert_eq!(pause(u32::MAX, 0.0), MAX_PAUSE);
}

/// An API server that is overloaded takes long to say so.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_slowly_does_not_reset_the_back_off() {
    let fixture = Fixture::start(|_, _| None);
    tokio::time::sleep(Duration::from_mins(15)).await;
    let requests = fixture.requests.lock();
    // Each takes 30 s to fail.
    let times: Vec<_> = requests.iter().map(|(at, _)| *at).collect();
    let last = times[times.len() - 1] - times[times.len() - 2];
    assert!(last >= Duration::from_secs(30) + MAX_PAUSE / 2, "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn annotations_that_are_read_only_now_are_listed_once_more() {
    let open = Mutex::new(Vec::new());
    let fixture = Fixture::start(move |_, uri| {
        if !is_list(uri) {
            let (events, watch) = scripted::live_watch();
            open.lock().push(events);
            return Some(watch);
        }
        let mut node = node("n1", 7);
        node["metadata"]["annotations"] = json!({"a.example/x": "1", "b.example/x": "2"});
        let body = json!({"metadata": {"resourceVersion": "7"}, "items": [node]});
        Some(scripted::json(200, &body))
    });
    let reads = |prefixes: &[&str]| {
        let prefixes: Vec<Box<str>> = prefixes.iter().map(|prefix| (*prefix).into()).collect();
        ReadAnnotations::of_nodes(&prefixes, &[])
    };
    let kept = |f: &Fixture| f.store.get("n1").map_or(0, |node| node.annotations.len());
    fixture.until(|f| f.requests.lock().len() == 2).await;
    assert_eq!((kept(&fixture), fixture.lists()), (2, 1));
    // Fewer are taken out of memory; the same cause nothing.
    fixture.store.keep_annotations(&reads(&["a.example/"]));
    fixture.store.keep_annotations(&reads(&["a.example/"]));
    assert_eq!((kept(&fixture), fixture.lists()), (1, 1));
    fixture
        .store
        .keep_annotations(&reads(&["a.example/", "b.example/"]));
    let outdated = Instant::now();
    fixture.until(|f| kept(f) == 2).await;
    assert!(outdated.elapsed() < HEALTHY, "{:?}", outdated.elapsed());
    assert_eq!(fixture.lists(), 2);
}

/// kube-apiserver refuses requests as long as its cache is not filled.
#[tokio::test(start_paused = true)]
async fn an_api_server_without_time_is_asked_when_it_says() {
    let fixture = Fixture::start(|number, _| {
        let mut busy = scripted::refusal(429, "TooManyRequests");
        busy.headers_mut()
            .insert("retry-after", "25".parse().unwrap());
        Some(match number {
            0 | 1 => busy,
            2 => list(1, "", &["a"]),
            _ => return None,
        })
    });
    fixture.until(|f| f.store.is_synced()).await;
    let requests = fixture.requests.lock();
    for pair in requests[..3].windows(2) {
        let pause = pair[1].0 - pair[0].0;
        assert!((25.0..26.0).contains(&pause.as_secs_f64()), "{pause:?}");
    }
}

// etcd goes back in time under a watch.

fn bookmark(version: u64) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    json!({"type": "BOOKMARK", "object": {"kind": "Node", "metadata": metadata}})
}

/// A watch after a list of version 1000, then a list of version `then` with another node. Events are sent to the first
/// watch.
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
