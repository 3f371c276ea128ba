//! One event as a request to the API server, tried until it is written or hopeless.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::correlator::Record;
use serde::Serialize;
use tokio::time::sleep;

use super::backlog::EventWrite;
use crate::{
    api::{Api, PatchKind},
    error::ApiError,
};

/// E-5
const TRIES: u32 = 12;
/// E-5: between tries; the first one is a random part of it, so that the processes that met the
/// same outage do not come back at once.
const PAUSE: Duration = Duration::from_secs(10);

/// How an event came to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventWritten {
    Created,
    Repeated,
}

/// Why it did not.
#[derive(Clone, Debug)]
pub(super) enum GaveUp {
    /// Another try would have the same answer.
    Refused(ApiError),
    /// The last error of all tries.
    Unreachable(ApiError),
}

/// Writes, with pauses between tries. A missing right is logged at once, unless another writer has
/// `warned` already: all tries together take minutes.
pub(super) async fn write(
    api: &Api,
    write: &EventWrite,
    random: fn() -> f64,
    warned: &AtomicBool,
) -> Result<EventWritten, GaveUp> {
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
        if !may_heal(&error) {
            return Err(GaveUp::Refused(error));
        }
        if tries == TRIES {
            return Err(GaveUp::Unreachable(error));
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
        let repeat = Repeat {
            count: record.count,
            last_timestamp: seconds(record.event.at),
            // A folded event shows the last of its messages.
            message: &record.event.message,
        };
        let path = format!("{path}/{}", record.name);
        match api.patch(&path, PatchKind::Strategic, &repeat).await {
            // Events live for an hour by default.
            Err(error) if error.is_not_found() => {}
            patched => return patched.map(|_| EventWritten::Repeated),
        }
    }
    let created = api.create_unread(&path, &Body::from(record)).await;
    created.map(|()| EventWritten::Created)
}

/// An error about the event itself, or about its namespace, is final; one about the API server's state,
/// our rights or our token may heal. client-go takes every answer for a final one, overload too.
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Repeat<'a> {
    count: u32,
    last_timestamp: String,
    message: &'a str,
}

/// A core/v1 Event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    involved_object: InvolvedObject<'a>,
    r#type: &'static str,
    reason: &'a str,
    message: &'a str,
    count: u32,
    first_timestamp: String,
    last_timestamp: String,
    source: Source<'a>,
    reporting_component: &'a str,
    /// Empty as upstream's: the host is not known.
    reporting_instance: &'static str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject<'a> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
}

impl<'a> From<&'a Record> for Body<'a> {
    fn from(record: &'a Record) -> Self {
        let event = &record.event;
        Self {
            api_version: "v1",
            kind: "Event",
            metadata: Metadata {
                name: &record.name,
                namespace: event.object.event_namespace(),
            },
            involved_object: InvolvedObject {
                api_version: event.object.api_version,
                kind: event.object.kind,
                namespace: &event.object.namespace,
                name: &event.object.name,
                uid: &event.object.uid,
                resource_version: &event.object.resource_version,
            },
            r#type: event.kind.as_str(),
            reason: &event.reason,
            message: &event.message,
            count: record.count,
            first_timestamp: seconds(record.first),
            last_timestamp: seconds(event.at),
            source: Source {
                component: event.component,
            },
            reporting_component: event.component,
            reporting_instance: "",
        }
    }
}

/// `metav1.Time` has whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
