//! The writer against a scripted API server, on a paused clock.

mod trouble;
mod writes;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::FutureExt;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{EventContent, EventMetrics, Events, ObjectRef, Recorder};
use crate::{api::Api, fixture::scripted};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// How the server answers one request: after this long, with this status code.
#[derive(Clone, Copy, Debug)]
struct Answer(Duration, u16);

const CREATED: Answer = Answer(Duration::ZERO, 201);

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
    in_flight: usize,
    most_in_flight: usize,
}

/// A writer at work.
struct Rig {
    start: Instant,
    events: Events,
    recorder: Recorder,
    metrics: EventMetrics,
    script: Arc<Mutex<Script>>,
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
                    script.in_flight += 1;
                    script.most_in_flight = script.most_in_flight.max(script.in_flight);
                    let otherwise = script.otherwise.unwrap_or(CREATED);
                    let answer = script.answers.pop_front().unwrap_or(otherwise);
                    (answer, script.reason)
                };
                sleep(delay).await;
                script.lock().in_flight -= 1;
                match code {
                    200..300 => scripted::json(code, &json!({"kind": "PartialObjectMetadata", "metadata": {"resourceVersion": "1"}})),
                    _ => scripted::refusal(code, reason),
                }
            }
            .boxed()
        });
        let metrics = EventMetrics::default();
        let (events, writer) = Events::new(Api::new(client), &metrics);
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let stop = shutdown.clone();
        tasks.spawn(async move { writer.run(stop).await });
        Self {
            start,
            recorder: events.recorder("cloud-node-controller"),
            events,
            metrics,
            script,
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
        family.get_or_create(&[("reason", result)]).get()
    }

    /// When each request came, in milliseconds since the start.
    fn times(&self) -> Vec<u128> {
        let requests = self.requests().into_iter();
        requests.map(|s| s.at.as_millis()).collect()
    }
}
