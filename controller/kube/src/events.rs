//! Writes core/v1 Events without ever delaying a loop.
//!
//! ```text
//!  Recorder::event ──try_send──► queue ──► EventMemory: count and limit ──► a request at a time
//!        └─ full: dropped, counted             └─ above the limit: dropped, counted
//! ```
//!
//! Events are hints for people: nothing depends on them. A write that fails is tried for about two minutes (E-5), during
//! which the others wait: the API server has other worries.
//! RBAC: `create` and `patch` on `events`.
//!
//! kube-runtime's recorder writes another kind, `events.k8s.io/v1`, whose repeats have no count and keep the first
//! message, and its caller waits for each write.

mod memory;
mod writer;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
pub use outrigger_core::event::{EventContent, EventType, ObjectRef};
use outrigger_core::text;
use outrigger_runtime::{clock::time_of_day, metric_families, telemetry::Labels};
use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::timeout,
};

pub use self::writer::EventWriter;
use super::api::Api;

/// How many events may wait. client-go has room for 1,000, and a writer that lags behind a cold
/// start of 5,000 nodes would lose most of their `Synced`. Full of long messages this is 12 MB.
const QUEUE: usize = 10_000;

metric_families! {
    /// Counters of events, each of which exists from the start.
    pub struct EventMetrics {
        written: Family<Labels<1>, Counter> = of(["created", "repeated"]),
            "outrigger_events_written", "Writes of events that the API server accepted";
        dropped: Family<Labels<1>, Counter> = of(["overflow", "spam", "shutdown"]),
            "outrigger_events_dropped", "Events that were never sent to the API server";
        failed: Family<Labels<1>, Counter> = of(["refused", "unreachable"]),
            "outrigger_events_failed", "Writes of events that were given up";
    }
}

/// Counters by `reason`.
fn of<const N: usize>(reasons: [&'static str; N]) -> Family<Labels<1>, Counter> {
    let family = Family::default();
    for reason in reasons {
        count(&family, reason, 0);
    }
    family
}

fn count(family: &Family<Labels<1>, Counter>, reason: &'static str, events: u64) {
    family.get_or_create(&[("reason", reason)]).inc_by(events);
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

/// An entry of the queue.
enum Recorded {
    Event(Event),
    /// Answered once all before it is written or given up.
    Flush(oneshot::Sender<()>),
}

/// Makes [`Recorder`]s and waits for what they recorded. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Recorded>,
    metrics: EventMetrics,
}

/// Records the events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    events: Events,
}

impl Events {
    /// The two ends of the queue. The caller [`run`](EventWriter::run)s the writer, whose requests go through `api`.
    pub fn new(api: Api, metrics: &EventMetrics) -> (Self, EventWriter) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        let metrics = metrics.clone();
        let writer = EventWriter::new(api, recorded, metrics.clone());
        (Self { queue, metrics }, writer)
    }

    /// A recorder of events with the source `component` (E-6).
    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder {
            component,
            events: self.clone(),
        }
    }

    /// Waits until all that is recorded is written or given up, but no longer than `limit`. Tells
    /// whether nothing is left.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, settled) = oneshot::channel();
        let flushed = async {
            // A writer that has ended has nothing left.
            if self.queue.send(Recorded::Flush(done)).await.is_ok() {
                let _ = settled.await;
            }
        };
        timeout(limit, flushed).await.is_ok()
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
        let reason = match self.events.queue.try_send(Recorded::Event(event)) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "overflow",
            Err(TrySendError::Closed(_)) => "shutdown",
        };
        count(&self.events.metrics.dropped, reason, 1);
    }
}
