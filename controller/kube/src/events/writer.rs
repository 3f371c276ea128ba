//! The one task that writes events, a request at a time.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Event, EventMetrics, Recorded, count,
    memory::{EventMemory, Record},
};
use crate::{api::Api, error::ApiError, patch::Patch};

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
    recorded: mpsc::Receiver<Recorded>,
    metrics: EventMetrics,
    memory: EventMemory,
    failures: Repeats,
}

impl EventWriter {
    pub(super) fn new(api: Api, recorded: mpsc::Receiver<Recorded>, metrics: EventMetrics) -> Self {
        Self {
            api,
            recorded,
            metrics,
            memory: EventMemory::default(),
            failures: Repeats::default(),
        }
    }

    /// Writes until `shutdown`, which drops what is left (see [`Events::flush`](super::Events::flush)),
    /// or until there are no recorders any more and all is written.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.write_all()).await;
    }

    async fn write_all(&mut self) {
        while let Some(recorded) = self.recorded.recv().await {
            let event = match recorded {
                Recorded::Event(event) => event,
                Recorded::Flush(done) => {
                    let _ = done.send(());
                    continue;
                }
            };
            match self.memory.observe(&event) {
                Some(record) => self.write(&event, &record).await,
                None => count(&self.metrics.dropped, "spam", 1),
            }
        }
    }

    /// Writes, with pauses between tries.
    async fn write(&self, event: &Event, record: &Record) {
        let mut pause = PAUSE.mul_f64(fastrand::f64());
        for tries in 1.. {
            let error = match attempt(&self.api, event, record).await {
                Ok(written) => return count(&self.metrics.written, written, 1),
                // The answer to an earlier try got lost.
                Err(ApiError::Status { code: 409, .. }) if tries > 1 => {
                    return count(&self.metrics.written, CREATED, 1);
                }
                Err(error) => error,
            };
            log_repeated!(
                warn, self.failures, &error.cause(), event = %record.name, %error, tries,
                "event cannot be written"
            );
            if !may_heal(&error) {
                return count(&self.metrics.failed, "refused", 1);
            }
            if tries == TRIES {
                return count(&self.metrics.failed, "unreachable", 1);
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
        Some(403) => error.refuses_us(),
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
