//! The table of open connections: how many there may be, and which one gives way to a new one.
//!
//! A new connection is always accepted. Where that passes a limit, another one is closed: of the same peer at the
//! limit per address, of the peers with the most connections at the limit of all. The one that has been idle for
//! longest goes first, then the one with the most requests in flight: a request does not keep its connection
//! open, or a client whose requests wait would keep all others out. So a client that opens connections takes room from
//! itself, and a probe is answered meanwhile.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::super::counts::{Closed, ServingMetrics};

/// How many connections there may be at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From one address.
    pub(super) per_peer: usize,
    /// From all.
    pub(super) total: usize,
}

/// A connection without a request gives way after this time: in the first moments its request is on the way.
const YOUNG: Duration = Duration::from_secs(1);

/// Closed connections are reported once in this period, with their number.
const REPORT: Duration = Duration::from_mins(1);

/// All open connections. Clones share the table.
#[derive(Clone)]
pub(super) struct Connections {
    table: Arc<Mutex<Table>>,
    limits: Limits,
    metrics: ServingMetrics,
}

#[derive(Default)]
struct Table {
    open: HashMap<u64, Entry>,
    next: u64,
    reported: Option<Instant>,
    unreported: usize,
}

struct Entry {
    peer: IpAddr,
    /// Requests in flight.
    requests: usize,
    /// True if bytes of an answer may wait to be sent.
    is_writing: bool,
    /// True if the connection ever had a request.
    has_asked: bool,
    /// When it was accepted, or its last request answered.
    idle_since: Instant,
    close: CancellationToken,
}

impl Connections {
    pub(super) fn new(limits: Limits, metrics: ServingMetrics) -> Self {
        Self {
            table: Arc::default(),
            limits,
            metrics,
        }
    }

    /// A place for a connection from `peer`, made by closing another one if need be.
    pub(super) fn admit(&self, peer: IpAddr, now: Instant) -> Connection {
        let peer = peer.to_canonical();
        let mut table = self.table.lock();
        if let Some(limit) = table.full(peer, self.limits) {
            let victim = table.victim(peer, limit, now);
            if let Some(closed) = victim.and_then(|id| table.open.remove(&id)) {
                closed.close.cancel();
                self.metrics.closed(limit);
                table.report(closed.peer, limit, self.limits, now);
            }
        }
        let id = table.next;
        table.next += 1;
        let close = CancellationToken::new();
        let entry = Entry {
            peer,
            requests: 0,
            is_writing: false,
            has_asked: false,
            idle_since: now,
            close: close.clone(),
        };
        table.open.insert(id, entry);
        self.metrics.open(table.open.len());
        drop(table);
        let all = self.clone();
        let place = Place { all, id };
        Connection { place, close }
    }
}

impl Table {
    /// Which limit one more connection from `peer` would pass.
    fn full(&self, peer: IpAddr, limits: Limits) -> Option<Closed> {
        let of_peer = self.open.values().filter(|entry| entry.peer == peer);
        if of_peer.count() >= limits.per_peer {
            return Some(Closed::PeerLimit);
        }
        (self.open.len() >= limits.total).then_some(Closed::TotalLimit)
    }

    /// The connection that gives way.
    fn victim(&self, peer: IpAddr, limit: Closed, now: Instant) -> Option<u64> {
        let mut per_peer: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.open.values() {
            *per_peer.entry(entry.peer).or_default() += 1;
        }
        let most = per_peer.values().copied().max();
        self.open
            .iter()
            .filter(|(_, entry)| match limit {
                Closed::PeerLimit => entry.peer == peer,
                _ => per_peer.get(&entry.peer).copied() == most,
            })
            .min_by_key(|(id, entry)| {
                // Last, but not never: all others may be as young.
                let is_young = !entry.has_asked && now.duration_since(entry.idle_since) < YOUNG;
                // Its client may not mean to read the answer.
                let is_busy = entry.requests > 0 || entry.is_writing;
                let most_requests = Reverse(entry.requests);
                (is_young, is_busy, most_requests, entry.idle_since, **id)
            })
            .map(|(id, _)| *id)
    }

    fn report(&mut self, peer: IpAddr, limit: Closed, limits: Limits, now: Instant) {
        self.unreported += 1;
        let due = self
            .reported
            .is_none_or(|last| now.duration_since(last) >= REPORT);
        if !due {
            return;
        }
        let reached = match limit {
            Closed::PeerLimit => format!("{} connections from one address", limits.per_peer),
            _ => format!("{} connections", limits.total),
        };
        warn!(
            closed = self.unreported,
            %peer,
            "HTTPS connections were closed to make room for new ones: the limit of {reached} is \
             reached; look for a client at that address that opens many connections"
        );
        self.reported = Some(now);
        self.unreported = 0;
    }
}

/// A place in the table, given back on drop.
pub(super) struct Connection {
    place: Place,
    close: CancellationToken,
}

#[derive(Clone)]
struct Place {
    all: Connections,
    id: u64,
}

impl Place {
    /// Absent once the connection has given way.
    fn entry<T>(&self, with: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.all.table.lock().open.get_mut(&self.id).map(with)
    }
}

impl Connection {
    /// Resolves when this connection has to give way.
    pub(super) async fn shed(&self) {
        self.close.cancelled().await;
    }

    /// Resolves when no request was in flight for `limit`.
    pub(super) async fn idle_for(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let end = self.place.entry(|entry| match entry.requests {
                0 => entry.idle_since + limit,
                _ => now + limit,
            });
            match end {
                Some(end) if end > now => sleep_until(end).await,
                _ => return,
            }
        }
    }

    /// A request is in flight until the answer is dropped.
    pub(super) fn request(&self) -> RequestInFlight {
        self.place.entry(|entry| {
            entry.requests += 1;
            entry.has_asked = true;
        });
        RequestInFlight(self.place.clone())
    }

    /// For its stream, which reports when answers are sent.
    pub(super) fn sending(&self) -> Sending {
        Sending(self.place.clone())
    }

    /// The server closes it for `reason`.
    pub(super) fn count(&self, reason: Closed) {
        self.place.all.metrics.closed(reason);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Place { all, id } = &self.place;
        let mut table = all.table.lock();
        table.open.remove(id);
        all.metrics.open(table.open.len());
    }
}

/// The bytes of answers on their way to the client.
pub(super) struct Sending(Place);

impl Sending {
    /// All that was answered is sent.
    pub(super) fn flushed(&self) {
        self.0.entry(|entry| {
            if std::mem::take(&mut entry.is_writing) {
                entry.idle_since = Instant::now();
            }
        });
    }
}

/// A request that is being answered, until its answer is handed to the connection, which is not idle then.
pub(super) struct RequestInFlight(Place);

impl RequestInFlight {
    /// Its answer has this code.
    pub(super) fn answered(self, code: StatusCode) {
        self.0.all.metrics.answered(code);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.entry(|entry| {
            entry.requests -= 1;
            entry.is_writing = true;
            entry.idle_since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests;
