//! Writes core/v1 Events without ever delaying a loop.
//!
//! ```text
//!  Recorder::event ──try_send──► queue ──► EventMemory: count and limit ──► a request at a time
//!        └─ full: dropped, counted             └─ above the limit: dropped, counted
//! ```
//!
//! Events are hints for people: nothing depends on them. A write that fails is tried for about two minutes (E-5), during
//! which the others wait: the API server has other worries.
//!
//! The loops and the election call [`Recorder::event`], which never waits and never fails; the task of the recorder writes.
//!
//! RBAC: `create` and `patch` on `events`.
//!
//! kube-runtime's recorder writes another kind, `events.k8s.io/v1`, whose repeats have no count and keep the first
//! message, and its caller waits for each write.

mod memory;

use std::time::Duration;

use jiff::Timestamp;
pub use outrigger_core::event::{EventContent, EventType, ObjectRef};
use outrigger_core::text;
use outrigger_runtime::{
    clock::time_of_day,
    log_repeated, metric_families,
    telemetry::{Labelled, Repeats},
};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::memory::{EventMemory, Record};
use super::{api::Api, error::ApiError, patch::Patch};

/// How long an event waits for other writes to end: a burst of objects is as it should be sooner, and its events follow.
/// With half of the queue full none waits.
const YIELDS: Duration = Duration::from_secs(1);

/// How many events may wait. client-go has room for 1,000, and a writer that lags behind a cold
/// start of 5,000 nodes would lose most of their `Synced`. Full of long messages this is 12 MB.
const QUEUE: usize = 10_000;

metric_families! {
    /// Counters of events, each of which exists from the start.
    pub struct EventMetrics {
        written: Labelled<1, Counter> = of(["created", "repeated"]),
            "outrigger_events_written", "Writes of events that the API server accepted";
        dropped: Labelled<1, Counter> = of(["overflow", "spam", "shutdown"]),
            "outrigger_events_dropped", "Events that were never sent to the API server";
        failed: Labelled<1, Counter> = of(["refused", "unreachable"]),
            "outrigger_events_failed", "Writes of events that were given up";
    }
}

/// Counters by `reason`.
fn of<const N: usize>(reasons: [&'static str; N]) -> Labelled<1, Counter> {
    let counters = Labelled::by(["reason"]);
    for reason in reasons {
        counters.of([reason]);
    }
    counters
}

fn count(counters: &Labelled<1, Counter>, reason: &'static str) {
    counters.of([reason]).inc();
}

/// An event before it is written.
#[derive(Clone, Debug)]
struct Event {
    /// The reporting component (E-6).
    component: &'static str,
    object: ObjectRef,
    content: EventContent,
    at: Timestamp,
}

/// Makes [`Recorder`]s. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    metrics: EventMetrics,
}

/// Records the events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    events: Events,
}

impl Events {
    /// The two ends of the queue. The caller [`run`](EventWriter::run)s the writer, whose requests go through `api`, and
    /// after those that `writes` counts ([`Clients::writes`](super::client::Clients::writes)).
    pub fn new(
        api: Api,
        writes: watch::Receiver<usize>,
        metrics: &EventMetrics,
    ) -> (Self, EventWriter) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        let metrics = metrics.clone();
        let writer = EventWriter {
            api,
            writes,
            recorded,
            metrics: metrics.clone(),
            memory: EventMemory::default(),
            failures: Repeats::default(),
        };
        (Self { queue, metrics }, writer)
    }

    /// A recorder of events with the source `component` (E-6).
    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder {
            component,
            events: self.clone(),
        }
    }
}

impl Recorder {
    /// Records that something happened to `object`. Never blocks and never fails: an event that
    /// finds no room is dropped and counted. A message above 1,024 bytes is cut.
    pub fn event(&self, object: ObjectRef, mut content: EventContent) {
        content.message = text::message(&content.message).into();
        tracing::debug!(
            component = self.component,
            object = %object.name,
            kind = content.kind.as_str(),
            reason = &*content.reason,
            note = &*content.message,
            "event"
        );
        let event = Event {
            component: self.component,
            object,
            content,
            at: time_of_day(),
        };
        let reason = match self.events.queue.try_send(event) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "overflow",
            Err(TrySendError::Closed(_)) => "shutdown",
        };
        count(&self.events.metrics.dropped, reason);
    }
}

/// The label of an Event that is new to the API server.
const CREATED: &str = "created";

/// E-5
const TRIES: u32 = 12;

/// E-5: between tries; the first one is a random part of it, so that the processes that met the
/// same outage do not come back together.
const PAUSE: Duration = Duration::from_secs(10);

/// The end of the queue of events that writes.
pub struct EventWriter {
    api: Api,
    writes: watch::Receiver<usize>,
    recorded: mpsc::Receiver<Event>,
    metrics: EventMetrics,
    memory: EventMemory,
    failures: Repeats,
}

impl EventWriter {
    /// Writes until `shutdown`, and what is recorded by then, for no longer than `limit`; or until there are no recorders
    /// any more and all is written.
    pub async fn run(mut self, shutdown: CancellationToken, limit: Duration) {
        let over = async {
            shutdown.cancelled().await;
            sleep(limit).await;
        };
        tokio::select! {
            () = self.write_all(&shutdown) => {}
            () = over => warn!("some events were not written"),
        }
    }

    async fn write_all(&mut self, shutdown: &CancellationToken) {
        loop {
            let next = shutdown.run_until_cancelled(self.recorded.recv()).await;
            let recorded = if let Some(recorded) = next {
                recorded
            } else {
                self.recorded.close();
                self.recorded.recv().await
            };
            let Some(event) = recorded else { return };
            if self.recorded.len() < QUEUE / 2 && !shutdown.is_cancelled() {
                let _ = timeout(YIELDS, self.writes.wait_for(|count| *count == 0)).await;
            }
            match self.memory.observe(&event) {
                Some(record) => self.write(&event, &record).await,
                None => count(&self.metrics.dropped, "spam"),
            }
        }
    }

    /// Writes, with pauses between tries.
    async fn write(&self, event: &Event, record: &Record) {
        let mut pause = PAUSE.mul_f64(fastrand::f64());
        for tries in 1.. {
            let error = match attempt(&self.api, event, record).await {
                Ok(written) => return count(&self.metrics.written, written),
                // The answer to an earlier try got lost.
                Err(ApiError::Status { code: 409, .. }) if tries > 1 => {
                    return count(&self.metrics.written, CREATED);
                }
                Err(error) => error,
            };
            log_repeated!(
                warn, self.failures, &error.cause(), event = %record.name, %error, tries,
                "event cannot be written"
            );
            if !may_heal(&error) {
                return count(&self.metrics.failed, "refused");
            }
            if tries == TRIES {
                return count(&self.metrics.failed, "unreachable");
            }
            sleep(pause).await;
            pause = PAUSE;
        }
    }
}

/// One request, or two if the Event has expired. Returns the label of its result.
async fn attempt(api: &Api, event: &Event, record: &Record) -> Result<&'static str, ApiError> {
    let namespace = namespace(event);
    let path = format!("/api/v1/namespaces/{namespace}/events");
    if record.count > 1 {
        let repeat = Patch::Strategic(json!({
            "count": record.count,
            "lastTimestamp": seconds(event.at),
        }));
        match api.patch(&format!("{path}/{}", record.name), &repeat).await {
            // Events live for an hour by default.
            Err(error) if error.is_not_found() => {}
            patched => return patched.map(|_| "repeated"),
        }
    }
    let created = api.create_unread(&path, &body(event, record)).await;
    created.map(|()| CREATED)
}

/// An error about the event itself, or about its namespace, is final; an error about the API server's state,
/// our rights or our token may heal. client-go treats every answer as final, an overload too.
fn may_heal(error: &ApiError) -> bool {
    if let ApiError::Refused(_) = error {
        return false;
    }
    match error.code() {
        // An API server that has just started refuses every user until it has read its roles. Any
        // other 403 is about the event: its namespace is being deleted, or admission does not want
        // it.
        Some(403) => error.lacks_right(),
        None | Some(401 | 408 | 429) => true,
        Some(code) => code >= 500,
    }
}

/// A core/v1 Event.
fn body(event: &Event, record: &Record) -> Value {
    let (object, content) = (&event.object, &event.content);
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": &*record.name, "namespace": namespace(event)},
        "involvedObject": {
            "apiVersion": object.api_version,
            "kind": object.kind,
            "name": &*object.name,
            "uid": &*object.uid,
        },
        "type": content.kind.as_str(),
        "reason": &*content.reason,
        "message": &*content.message,
        "count": record.count,
        "firstTimestamp": seconds(record.first),
        "lastTimestamp": seconds(event.at),
        "source": {"component": event.component},
        "reportingComponent": event.component,
        // Empty as upstream's: the host is not known.
        "reportingInstance": "",
    });
    for (field, text) in [
        ("namespace", &object.namespace),
        ("resourceVersion", &object.resource_version),
    ] {
        if !text.is_empty() {
            body["involvedObject"][field] = json!(&**text);
        }
    }
    body
}

/// The namespace of the object, or `default` (B-10).
fn namespace(event: &Event) -> &str {
    match &*event.object.namespace {
        "" => "default",
        namespace => namespace,
    }
}

/// `metav1.Time` has whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
