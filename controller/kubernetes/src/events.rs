//! Writes core/v1 Events without ever delaying a loop.
//!
//! ```text
//!  Recorder::event ──try_send──► queue ──► EventMemory: count and limit ──► a request at a time
//!        └─ full: dropped, counted             └─ above the limit: dropped, counted
//! ```
//!
//! Events are hints for people: nothing depends on them. An event yields to the writes of Nodes and
//! Services in flight ([`Traffic`]), up to half a second each time and only while the queue is less than
//! half full, so that sustained writes delay events and lose none. A write that fails is tried for about two
//! minutes (E-5), during which the others wait: the API server has other worries.
//! RBAC: `create` and `patch` on `events`.
//!
//! kube-runtime's recorder writes another kind, `events.k8s.io/v1`, whose repeats have no count and keep the first
//! message, and its caller waits for each write.

mod memory;
mod metrics;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
pub use outrigger_core::event::{EventContent, EventType, ObjectRef};
use outrigger_core::text;
use outrigger_runtime::clock::time_of_day;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    watch,
};

use self::metrics::count;
pub use self::{metrics::EventMetrics, writer::EventWriter};
use super::{api::Api, traffic::Traffic};

/// How many events may wait. client-go has room for 1,000, and a writer that lags behind a cold
/// start of 5,000 nodes would lose most of their `Synced`. Full of long messages this is 12 MB.
const QUEUE: usize = 10_000;

/// An event in the queue.
#[derive(Clone, Debug)]
struct Event {
    /// The reporting component (E-6).
    component: &'static str,
    object: ObjectRef,
    content: EventContent,
    at: Timestamp,
}

/// Makes [`Recorder`]s and waits for what they recorded. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    unsettled: Unsettled,
    metrics: EventMetrics,
}

/// Records the events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    events: Events,
}

/// How many events are recorded and neither written nor given up.
type Unsettled = Arc<watch::Sender<usize>>;

impl Events {
    /// The two ends of the queue. The caller [`run`](EventWriter::run)s the writer, whose requests
    /// go through `api` and yield to the writes of `traffic`.
    pub fn new(api: Api, traffic: Traffic, metrics: &EventMetrics) -> (Self, EventWriter) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        let unsettled = Unsettled::default();
        let writer = EventWriter::new(
            api,
            traffic,
            recorded,
            Arc::clone(&unsettled),
            metrics.clone(),
        );
        let events = Self {
            queue,
            unsettled,
            metrics: metrics.clone(),
        };
        (events, writer)
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
        let mut unsettled = self.unsettled.subscribe();
        let settled = unsettled.wait_for(|count| *count == 0);
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    fn record(&self, event: Event) {
        self.unsettled.send_modify(|count| *count += 1);
        if let Err(error) = self.queue.try_send(event) {
            let reason = match error {
                TrySendError::Full(_) => "overflow",
                TrySendError::Closed(_) => "shutdown",
            };
            count(&self.metrics.dropped, reason, 1);
            settle(&self.unsettled);
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
        self.events.record(Event {
            component: self.component,
            object,
            content,
            at: time_of_day(),
        });
    }
}

fn settle(unsettled: &watch::Sender<usize>) {
    unsettled.send_modify(|count| *count = count.saturating_sub(1));
}
