//! The writer against a scripted API server, on a paused clock.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::FutureExt;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{EventContent, EventMetrics, Events, ObjectRef, Recorder};
use crate::{api::Api, fixture::scripted};

const SECOND: Duration = Duration::from_secs(1);

/// How the server answers one request: after this long, with this status code.
#[derive(Clone, Copy, Debug)]
struct Answer(Duration, u16);

const CREATED: Answer = Answer(Duration::ZERO, 201);

/// How long the writer may write after the shutdown.
const LIMIT: Duration = Duration::from_secs(8);

#[derive(Clone, Debug)]
struct Seen {
    at: Duration,
    method: String,
    path: String,
    content_type: String,
    accept: String,
    body: Value,
}

#[derive(Default)]
struct Script {
    /// The next answers; then `otherwise`.
    answers: VecDeque<Answer>,
    otherwise: Option<Answer>,
    /// Words of a refusal.
    reason: &'static str,
    requests: Vec<Seen>,
}

/// A writer at work.
struct Rig {
    start: Instant,
    events: Events,
    recorder: Recorder,
    metrics: EventMetrics,
    script: Arc<Mutex<Script>>,
    /// Other writes in flight.
    others: watch::Sender<usize>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Rig {
    /// The first answers are these; later ones are 201.
    fn start(answers: &[Answer]) -> Self {
        let start = Instant::now();
        let script = Arc::new(Mutex::new(Script {
            answers: answers.iter().copied().collect(),
            ..Script::default()
        }));
        let server = Arc::clone(&script);
        let client = scripted::client(move |request| {
            let script = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let header = |name| parts.headers[name].to_str().unwrap().to_owned();
                let (Answer(delay, code), reason) = {
                    let mut script = script.lock();
                    script.requests.push(Seen {
                        at: start.elapsed(),
                        method: parts.method.to_string(),
                        path: parts.uri.to_string(),
                        content_type: header("content-type"),
                        accept: header("accept"),
                        body: serde_json::from_slice(&body).unwrap(),
                    });
                    let otherwise = script.otherwise.unwrap_or(CREATED);
                    let answer = script.answers.pop_front().unwrap_or(otherwise);
                    (answer, script.reason)
                };
                sleep(delay).await;
                match code {
                    200..300 => scripted::json(code, &json!({"kind": "PartialObjectMetadata", "metadata": {"resourceVersion": "1"}})),
                    _ => scripted::refusal(code, reason),
                }
            }
            .boxed()
        });
        let metrics = EventMetrics::default();
        let (others, writes) = watch::channel(0);
        let (events, writer) = Events::new(Api::new(client), writes, &metrics);
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let stop = shutdown.clone();
        tasks.spawn(async move { writer.run(stop, LIMIT).await });
        Self {
            start,
            recorder: events.recorder("cloud-node-controller"),
            events,
            metrics,
            script,
            others,
            shutdown,
            tasks,
        }
    }

    fn synced(&self, node: &str) {
        self.says(node, "Node synced successfully");
    }

    fn says(&self, node: &str, message: &str) {
        let node = ObjectRef::node(node, "0b6e");
        self.recorder
            .event(node, EventContent::normal("Synced", message));
    }

    /// Sleeps until this long after the start.
    async fn at(&self, offset: Duration) {
        tokio::time::sleep_until(self.start + offset).await;
    }

    fn requests(&self) -> Vec<Seen> {
        self.script.lock().requests.clone()
    }

    /// Method and count of each request.
    fn writes(&self) -> Vec<(String, u64)> {
        let requests = self.requests().into_iter();
        requests
            .map(|s| (s.method, s.body["count"].as_u64().unwrap()))
            .collect()
    }

    /// How many events ended so.
    fn count(&self, result: &'static str) -> u64 {
        let family = match result {
            "created" | "repeated" => &self.metrics.written,
            "refused" | "unreachable" => &self.metrics.failed,
            _ => &self.metrics.dropped,
        };
        family.of([result]).get()
    }

    /// When each request came, in milliseconds since the start.
    fn times(&self) -> Vec<u128> {
        let requests = self.requests().into_iter();
        requests.map(|s| s.at.as_millis()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_follows_the_writes_in_flight_and_waits_a_second_at_most() {
    let rig = Rig::start(&[]);
    rig.others.send_replace(2);
    rig.synced("n1");
    rig.synced("n2");
    rig.at(SECOND * 3 / 2).await;
    rig.others.send_replace(0);
    rig.at(SECOND * 5).await;
    assert_eq!(rig.times(), [1000, 1500]);
}

#[tokio::test(start_paused = true)]
async fn e1_an_event_is_posted_as_upstream_writes_it() {
    let rig = Rig::start(&[]);
    rig.synced("n1");
    sleep(SECOND).await;
    let requests = rig.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method, "POST");
    assert_eq!(requests[0].path, "/api/v1/namespaces/default/events");
    assert_eq!(requests[0].content_type, "application/json");
    assert!(requests[0].accept.contains("as=PartialObjectMetadata"));
    let body = &requests[0].body;
    let name = body["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("n1."), "{name}");
    let first = body["firstTimestamp"].as_str().unwrap();
    assert_eq!(first.len(), "2026-11-02T10:00:00Z".len(), "whole seconds");
    assert_eq!(
        *body,
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0b6e"},
            "type": "Normal",
            "reason": "Synced",
            "message": "Node synced successfully",
            "count": 1,
            "firstTimestamp": first,
            "lastTimestamp": first,
            "source": {"component": "cloud-node-controller"},
            "reportingComponent": "cloud-node-controller",
            "reportingInstance": "",
        })
    );
    assert_eq!(rig.count("created"), 1);
}

#[tokio::test(start_paused = true)]
async fn b10_an_event_lives_where_its_object_lives() {
    let rig = Rig::start(&[]);
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "77aa", "resourceVersion": "12"},
    });
    let service = ObjectRef::service(&serde_json::from_value(service).unwrap());
    let recorder = rig.events.recorder("service-controller");
    let event = EventContent::warning("SyncLoadBalancerFailed", "no quota");
    recorder.event(service, event);
    sleep(SECOND).await;
    let [request] = &rig.requests()[..] else {
        panic!("{:?}", rig.requests())
    };
    assert_eq!(request.path, "/api/v1/namespaces/shop/events");
    assert_eq!(request.body["metadata"]["namespace"], "shop");
    assert_eq!(
        request.body["involvedObject"],
        json!({
            "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
            "uid": "77aa", "resourceVersion": "12",
        })
    );
    assert_eq!(request.body["reason"], "SyncLoadBalancerFailed");
    assert_eq!(request.body["type"], "Warning");
    assert_eq!(request.body["reportingComponent"], "service-controller");
}

#[tokio::test(start_paused = true)]
async fn e2_a_repeat_is_a_patch_of_count_and_time() {
    let rig = Rig::start(&[]);
    rig.synced("n1");
    rig.synced("n1");
    sleep(SECOND).await;
    let [post, patch] = &rig.requests()[..] else {
        panic!("{:?}", rig.requests())
    };
    assert_eq!(patch.method, "PATCH");
    let name = post.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        patch.path,
        format!("/api/v1/namespaces/default/events/{name}?fieldValidation=Ignore")
    );
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    let last = patch.body["lastTimestamp"].as_str().unwrap();
    assert_eq!(patch.body, json!({"count": 2, "lastTimestamp": last}));
    assert_eq!(rig.count("repeated"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut() {
    let rig = Rig::start(&[]);
    rig.says("n1", &"ä".repeat(4000));
    sleep(SECOND).await;
    assert_eq!(rig.requests()[0].body["message"], "ä".repeat(512));
}

#[tokio::test(start_paused = true)]
async fn e5_a_write_is_tried_twelve_times() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 503); 12]);
    rig.synced("n1");
    rig.at(200 * SECOND).await;
    let times = rig.times();
    let first = times[1];
    assert!(first < 10_000, "a random part of the pause: {first}");
    let expected = [0].into_iter().chain((0..11).map(|n| first + n * 10_000));
    assert_eq!(times, expected.collect::<Vec<_>>());
    assert_eq!(rig.count("unreachable"), 1);

    // And the next one has its own chance.
    rig.synced("n2");
    sleep(SECOND).await;
    assert_eq!(rig.count("created"), 1);
}

/// A right that is missing may be granted, or not have been read yet by an API server that has just
/// started; a namespace that is being deleted takes no event any more.
#[tokio::test(start_paused = true)]
async fn e5_only_what_may_heal_is_tried_again() {
    let right = "User \"u\" cannot create resource \"events\" in API group \"\"";
    let ending = "unable to create new content in namespace a because it is being terminated";
    for (code, reason, tries) in [
        (400, "", 1),
        (403, ending, 1),
        (404, "", 1),
        (409, "", 1),
        (413, "", 1),
        (422, "", 1),
        (401, "", 2),
        (403, right, 2),
        (408, "", 2),
        (429, "", 2),
        (500, "", 2),
        (504, "", 2),
    ] {
        let rig = Rig::start(&[Answer(Duration::ZERO, code)]);
        rig.script.lock().reason = reason;
        rig.synced("n1");
        sleep(30 * SECOND).await;
        assert_eq!(rig.requests().len(), tries, "HTTP {code} {reason}");
        let refused = u64::from(tries == 1);
        assert_eq!(rig.count("refused"), refused, "HTTP {code} {reason}");
        assert_eq!(rig.count("created"), 1 - refused, "HTTP {code} {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn e5_an_event_that_expired_is_posted_anew() {
    let rig = Rig::start(&[CREATED, Answer(Duration::ZERO, 404)]);
    rig.synced("n1");
    rig.synced("n1");
    sleep(SECOND).await;
    assert_eq!(
        rig.writes(),
        [("POST", 1), ("PATCH", 2), ("POST", 2)].map(|(method, count)| (method.to_owned(), count))
    );
    let requests = rig.requests();
    for kept in ["metadata", "firstTimestamp"] {
        assert_eq!(requests[2].body[kept], requests[0].body[kept]);
    }
    assert_eq!((rig.count("created"), rig.count("repeated")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_got_lost_is_not_a_refusal() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 504), Answer(Duration::ZERO, 409)]);
    rig.synced("n1");
    sleep(30 * SECOND).await;
    assert_eq!((rig.count("created"), rig.count("refused")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_the_api_server_little() {
    let rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(Duration::ZERO, 503));
    for n in 0..1000 {
        rig.synced(&format!("n{n}"));
    }
    rig.at(60 * SECOND).await;
    assert_eq!(
        rig.requests().len(),
        7,
        "tries at 0, within 10 s, and every 10 s"
    );
    rig.script.lock().otherwise = None;
    sleep(10 * SECOND).await;
    assert_eq!(rig.count("created"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_blocks() {
    let rig = Rig::start(&[]);
    // The writer has had no chance to run yet.
    for n in 0..10_005 {
        rig.synced(&format!("n{n}"));
    }
    assert_eq!(rig.count("overflow"), 5);
    assert_eq!(rig.start.elapsed(), Duration::ZERO);
    // Once there is room again, so is there for the next one.
    tokio::task::yield_now().await;
    rig.synced("next");
    assert_eq!(rig.count("overflow"), 5);
}

#[tokio::test(start_paused = true)]
async fn events_that_were_recorded_before_the_end_are_written() {
    let mut rig = Rig::start(&[Answer(3 * SECOND, 201)]);
    rig.synced("n1");
    rig.at(SECOND).await;
    rig.synced("n2");
    rig.shutdown.cancel();
    rig.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(rig.start.elapsed(), 3 * SECOND);
    assert_eq!(rig.count("created"), 2);
    // A late one is dropped.
    rig.synced("late");
    assert_eq!(rig.count("shutdown"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_no_longer_than_its_limit() {
    let mut rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(Duration::ZERO, 503));
    rig.synced("n1");
    rig.shutdown.cancel();
    rig.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(rig.start.elapsed(), LIMIT);
}
