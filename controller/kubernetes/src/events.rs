//! Writes core/v1 Events without ever delaying a loop.
//!
//! ```text
//!  Recorder::event ──try_send──► queue ──► Correlator ──► backlog ──► at most 4 writes
//!        │                                     │
//!        └─ full: dropped, counted             └─ too chatty: dropped, counted
//! ```
//!
//! Events are hints for people: nothing depends on them. An event yields to the writes of Nodes and
//! Services in flight ([`Traffic`]), up to half a second each time and only while the queue is less than
//! half full, so that sustained writes delay events and lose none. A write that fails is tried for about two minutes (E-5),
//! during which the others wait, at most four requests every ten seconds: the API server has
//! other worries. RBAC: `create` and `patch` on `events`.
//!
//! kube-runtime's recorder writes another kind, `events.k8s.io/v1`, and its caller waits for each write.

mod backlog;
mod metrics;
mod request;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::correlator::{Correlator, Event, MAX_MESSAGE, cut};
pub use outrigger_core::correlator::{EventContent, EventType, ObjectRef};
use outrigger_runtime::clock::time_of_day;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    watch,
};

pub use self::{metrics::EventMetrics, writer::EventWriter};
use super::{api::Api, traffic::Traffic};

/// How many events may wait. client-go has room for 1,000, and one writer that lags behind a cold
/// start of 5,000 nodes would lose most of their `Synced`. Full of long messages this is 12 MB.
const QUEUE: usize = 10_000;

/// Makes [`Recorder`]s and waits for what they recorded.
#[derive(Clone)]
pub struct Events {
    shared: Arc<Shared>,
}

/// Records the events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    shared: Arc<Shared>,
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

struct Shared {
    queue: mpsc::Sender<Event>,
    unsettled: Unsettled,
    now: Clock,
    metrics: EventMetrics,
    overflowing: AtomicBool,
}

/// How many events are recorded and neither written nor given up.
type Unsettled = Arc<watch::Sender<usize>>;

impl Events {
    /// The two ends of the queue. The caller [`run`](EventWriter::run)s the writer, whose requests
    /// go through `api` and yield to the writes of `traffic`.
    pub fn new(api: Api, traffic: Traffic, metrics: &EventMetrics) -> (Self, EventWriter) {
        let now = Arc::new(time_of_day);
        Self::with(api, traffic, metrics, now, fastrand::f64)
    }

    fn with(
        api: Api,
        traffic: Traffic,
        metrics: &EventMetrics,
        now: Clock,
        random: fn() -> f64,
    ) -> (Self, EventWriter) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        let unsettled = Arc::new(watch::Sender::new(0));
        let writer = EventWriter {
            api,
            traffic,
            recorded,
            unsettled: Arc::clone(&unsettled),
            metrics: metrics.clone(),
            random,
            correlator: Correlator::default(),
            warned: Arc::default(),
        };
        let shared = Arc::new(Shared {
            queue,
            unsettled,
            now,
            metrics: metrics.clone(),
            overflowing: AtomicBool::new(false),
        });
        (Self { shared }, writer)
    }

    /// A recorder of events with the source `component` (E-6).
    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder {
            component,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Waits until all that is recorded is written or given up, but no longer than `limit`. Tells
    /// whether nothing is left.
    pub async fn flush(&self, limit: Duration) -> bool {
        let mut unsettled = self.shared.unsettled.subscribe();
        let settled = unsettled.wait_for(|count| *count == 0);
        tokio::time::timeout(limit, settled).await.is_ok()
    }
}

impl Recorder {
    /// Records that something happened to `object`. Never blocks and never fails: an event that
    /// finds no room is dropped and counted. A message above 1,024 bytes is cut.
    pub fn event(&self, object: ObjectRef, content: EventContent) {
        let event = Event {
            component: self.component,
            object,
            kind: content.kind,
            reason: content.reason,
            message: cut(content.message.into(), MAX_MESSAGE),
            at: (self.shared.now)(),
        };
        tracing::debug!(
            component = event.component,
            object = %event.object.name,
            kind = event.kind.as_str(),
            reason = &*event.reason,
            note = event.message,
            "event"
        );
        self.shared.record(event);
    }
}

impl Shared {
    fn record(&self, event: Event) {
        self.unsettled.send_modify(|count| *count += 1);
        let Err(error) = self.queue.try_send(event) else {
            if self.queue.capacity() > QUEUE / 2 {
                self.overflowing.store(false, Ordering::Relaxed);
            }
            return;
        };
        settle(&self.unsettled, 1);
        match error {
            TrySendError::Full(_) => {
                self.metrics.overflow.inc();
                if !self.overflowing.swap(true, Ordering::Relaxed) {
                    tracing::warn!("too many events wait to be written; dropping new ones");
                }
            }
            TrySendError::Closed(_) => {
                self.metrics.shutdown.inc();
            }
        }
    }
}

fn settle(unsettled: &watch::Sender<usize>, events: usize) {
    unsettled.send_modify(|count| *count = count.saturating_sub(events));
}
