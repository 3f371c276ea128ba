//! Writes in flight, so that events yield to them.
//!
//! A Node waits for two writes before Pods may run on it, and a Service for its addresses; an event about
//! either can come a second later. Events have a client of their own, but the API server and its store are
//! one: what they spend on an event, a Node waits for.

use std::{sync::Arc, time::Duration};

use http::{Method, Uri};
use tokio::{sync::watch, time::timeout};

/// How many writes of Nodes, Services and the like are in flight in this process. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    in_flight: Arc<watch::Sender<usize>>,
}

/// A write in flight; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct WriteInFlight(Traffic);

impl Traffic {
    /// Counts a request until the returned guard is dropped. Returns `None` for a request that events need not
    /// yield to: a read, a renewal of the Lease, an event.
    pub(super) fn begin(&self, method: &Method, uri: &Uri) -> Option<WriteInFlight> {
        if *method == Method::GET || is_background(uri.path()) {
            return None;
        }
        self.in_flight.send_if_modified(|count| {
            *count += 1;
            false
        });
        Some(WriteInFlight(self.clone()))
    }

    /// Waits until no write is in flight, `at_most` this long.
    pub(super) async fn idle(&self, at_most: Duration) {
        let mut in_flight = self.in_flight.subscribe();
        // The sender lives in `self`, so that only the time limit can end the wait early.
        let _ = timeout(at_most, in_flight.wait_for(|count| *count == 0)).await;
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        self.0.in_flight.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
    }
}

fn is_background(path: &str) -> bool {
    path.ends_with("/events")
        || path.contains("/events/")
        || path.starts_with("/apis/coordination.k8s.io/")
}

#[cfg(test)]
mod tests;
