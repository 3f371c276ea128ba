//! An event as a request to the API server, tried until it is written or hopeless.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::correlator::Record;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::backlog::EventWrite;
use crate::{api::Api, error::ApiError, patch::Patch};

/// E-5
const TRIES: u32 = 12;
/// E-5: between tries; the first one is a random part of it, so that the processes that met the
/// same outage do not come back together.
const PAUSE: Duration = Duration::from_secs(10);

/// How an event came to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventWritten {
    Created,
    Repeated,
}

/// Writes, with pauses between tries. A missing right is logged immediately, unless another writer has
/// `warned` already: all tries together take minutes.
pub(super) async fn write(
    api: &Api,
    write: &EventWrite,
    random: fn() -> f64,
    warned: &AtomicBool,
) -> Result<EventWritten, ApiError> {
    let mut pause = PAUSE.mul_f64(random().clamp(0.0, 1.0));
    let mut tries = 1;
    loop {
        let error = match attempt(api, write).await {
            Ok(written) => return Ok(written),
            // The answer to an earlier try got lost.
            Err(ApiError::Status { code: 409, .. }) if write.create && tries > 1 => {
                return Ok(EventWritten::Created);
            }
            Err(error) => error,
        };
        if tries == TRIES || !may_heal(&error) {
            return Err(error);
        }
        let event = &write.record.name;
        if error.code() == Some(403) && !warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%event, %error, "events may not be written; trying again");
        } else {
            tracing::debug!(%event, %error, tries, "event cannot be written yet");
        }
        sleep(pause).await;
        pause = PAUSE;
        tries += 1;
    }
}

async fn attempt(
    api: &Api,
    EventWrite { record, create }: &EventWrite,
) -> Result<EventWritten, ApiError> {
    let namespace = record.event.object.event_namespace();
    let path = format!("/api/v1/namespaces/{namespace}/events");
    if !create {
        let repeat = Patch::Strategic(json!({
            "count": record.count,
            "lastTimestamp": seconds(record.event.at),
            // A folded event shows the last of its messages.
            "message": record.event.message,
        }));
        let path = format!("{path}/{}", record.name);
        match api.patch(&path, &repeat).await {
            // Events live for an hour by default.
            Err(error) if error.is_not_found() => {}
            patched => return patched.map(|_| EventWritten::Repeated),
        }
    }
    let created = api.create_unread(&path, &body(record)).await;
    created.map(|()| EventWritten::Created)
}

/// An error about the event itself, or about its namespace, is final; an error about the API server's state,
/// our rights or our token may heal. client-go treats every answer as final, an overload too.
pub(super) fn may_heal(error: &ApiError) -> bool {
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
fn body(record: &Record) -> Value {
    let event = &record.event;
    let object = &event.object;
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": &*record.name, "namespace": object.event_namespace()},
        "involvedObject": {
            "apiVersion": object.api_version,
            "kind": object.kind,
            "name": &*object.name,
            "uid": &*object.uid,
        },
        "type": event.kind.as_str(),
        "reason": &*event.reason,
        "message": event.message,
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

/// `metav1.Time` has whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
