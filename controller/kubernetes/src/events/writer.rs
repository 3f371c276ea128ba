//! The one task that writes events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use outrigger_core::correlator::{Correlator, Event};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    EventMetrics, Unsettled,
    backlog::Backlog,
    request::{EventWritten, may_heal, write},
    settle,
};
use crate::{api::Api, error::ApiError, traffic::Traffic};

/// Requests in flight. Few, since whatever else the process wants from the API server goes first;
/// more than client-go's one, so that one event that cannot be written does not hold up all others.
const IN_FLIGHT: usize = 4;

/// Events that are taken from the queue before they can be written, so that the repeats of one
/// become a single write.
const WINDOW: usize = 64;

/// How long one event yields to other writes at most, so that events still come while those never rest.
const YIELD: Duration = Duration::from_millis(500);

/// The end of the queue of events that writes.
pub struct EventWriter {
    pub(super) api: Api,
    pub(super) traffic: Traffic,
    pub(super) recorded: mpsc::Receiver<Event>,
    pub(super) unsettled: Unsettled,
    pub(super) metrics: EventMetrics,
    pub(super) random: fn() -> f64,
    pub(super) correlator: Correlator,
    /// A warning was logged, and nothing was written since.
    pub(super) warned: Arc<AtomicBool>,
}

impl EventWriter {
    /// Writes until `shutdown`, which drops what is left (see [`Events::flush`](super::Events::flush)),
    /// or until there are no recorders any more and all is written.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut backlog = Backlog::default();
        let mut writes = FuturesUnordered::new();
        let mut open = true;
        while open || backlog.len() > 0 {
            while writes.len() < IN_FLIGHT
                && let Some(next) = backlog.next()
            {
                let (api, random) = (self.api.clone(), self.random);
                let warned = Arc::clone(&self.warned);
                let (traffic, limit) = (self.traffic.clone(), self.yields());
                writes.push(async move {
                    traffic.idle(limit).await;
                    let written = write(&api, &next, random, &warned).await;
                    (next.record.name, written)
                });
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some((name, written)) = writes.next() => {
                    backlog.done(&name);
                    self.ended(&name, written);
                    // Last, so that whoever waits in a flush finds all of it counted.
                    settle(&self.unsettled, 1);
                }
                event = self.recorded.recv(), if open && backlog.len() < WINDOW => match event {
                    Some(event) => self.correlate(event, &mut backlog),
                    None => open = false,
                },
            }
        }
    }

    /// How long the next write yields: not at all once the queue is half full, or events would be lost.
    fn yields(&self) -> Duration {
        if self.recorded.len() > self.recorded.max_capacity() / 2 {
            Duration::ZERO
        } else {
            YIELD
        }
    }

    fn correlate(&mut self, event: Event, backlog: &mut Backlog) {
        let Some(record) = self.correlator.observe(event) else {
            self.metrics.spam.inc();
            return settle(&self.unsettled, 1);
        };
        if backlog.push(record) {
            settle(&self.unsettled, 1);
        }
    }

    fn ended(&mut self, name: &Arc<str>, written: Result<EventWritten, ApiError>) {
        let error = match written {
            Ok(written) => {
                self.warned.store(false, Ordering::Relaxed);
                match written {
                    EventWritten::Created => self.metrics.created.inc(),
                    EventWritten::Repeated => self.metrics.repeated.inc(),
                };
                return;
            }
            Err(error) => error,
        };
        if may_heal(&error) {
            self.metrics.unreachable.inc();
        } else {
            self.metrics.refused.inc();
        }
        // A missing right fails every event: it is logged once.
        if self.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(event = %name, %error, "event cannot be written; giving it up");
        } else {
            tracing::warn!(event = %name, %error, "event cannot be written; giving it up");
        }
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        self.recorded.close();
        let left = self.unsettled.send_replace(0);
        if left > 0 {
            tracing::warn!(events = left, "events lost: not written in time");
            self.metrics.shutdown.inc_by(left as u64);
        }
    }
}
