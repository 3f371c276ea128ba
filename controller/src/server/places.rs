//! How many connections there may be, in all and of one address, and counts of them: `outrigger_https_*`.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use http::StatusCode;
use outrigger_runtime::{
    metric_families,
    telemetry::{Labels, Repeats, TextLabels},
};
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tracing::warn;

/// Connections at once. Probes, scrapers and people need few; each costs memory.
pub(super) const TOTAL: usize = 512;

/// Connections of one address at once. Kubelets probe from the node's address, so that a Pod that uses up its own
/// share takes nothing from them.
pub(super) const PER_PEER: usize = 32;

/// The places of all connections.
pub(super) struct Places {
    /// How many connections of each address are open.
    open: Mutex<HashMap<IpAddr, usize>>,
    metrics: ServingMetrics,
    repeats: Repeats,
}

impl Places {
    pub(super) fn new(metrics: ServingMetrics) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            metrics,
            repeats: Repeats::default(),
        })
    }

    /// A place for one connection of `peer`; none at a limit, where the connection is to be closed.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPlace> {
        let peer = peer.to_canonical();
        let mut open = self.open.lock();
        let all: usize = open.values().sum();
        let own = open.get(&peer).copied().unwrap_or_default();
        let (limit, most) = if own >= PER_PEER {
            ("peer_limit", PER_PEER)
        } else if all >= TOTAL {
            ("total_limit", TOTAL)
        } else {
            open.insert(peer, own + 1);
            self.metrics.open(all + 1);
            let places = Arc::clone(self);
            return Some(ConnectionPlace { places, peer });
        };
        self.metrics.closed(limit);
        if let Some(others) = self.repeats.due(limit) {
            warn!(
                %peer,
                limit,
                most,
                others,
                "HTTPS connections are closed at once, since as many as the limit allows are open; look for a client at \
                 that address that opens many connections"
            );
        }
        None
    }
}

/// The place of a connection, given back on drop.
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    peer: IpAddr,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.places.open.lock();
        if let Some(own) = open.get_mut(&self.peer) {
            *own -= 1;
        }
        open.retain(|_, connections| *connections > 0);
        self.places.metrics.open(open.values().sum());
    }
}

/// Connections and answers of the HTTPS servers, by default of the one with health and metrics.
#[derive(Clone, Debug)]
pub struct ServingMetrics {
    server: &'static str,
    families: ServingFamilies,
}

metric_families! {
    struct ServingFamilies {
        connections: Family<Labels<1>, Gauge>,
            "outrigger_https_connections", "Open connections of an HTTPS server";
        closed: Family<Labels<2>, Counter>,
            "outrigger_https_connections_closed",
            "Connections that an HTTPS server closed at once: at the limit per peer address or of all";
        answers: Family<TextLabels<2>, Counter>,
            "outrigger_https_requests", "Requests to an HTTPS server, by code of the answer";
    }
}

impl Default for ServingMetrics {
    fn default() -> Self {
        Self {
            server: "secure",
            families: ServingFamilies::default(),
        }
    }
}

impl ServingMetrics {
    /// Registers the families.
    pub fn register_in(&self, registry: &mut Registry) {
        self.families.register_in(registry);
    }

    /// The same families for the server of this name.
    #[must_use]
    pub fn of(&self, server: &'static str) -> Self {
        Self {
            server,
            ..self.clone()
        }
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(test)]
    pub fn sample(&self) {
        self.open(1);
        self.closed("peer_limit");
        self.answered(StatusCode::OK);
    }

    fn open(&self, connections: usize) {
        let labels = [("server", self.server)];
        let gauge = self.families.connections.get_or_create_owned(&labels);
        gauge.set(connections as i64);
    }

    pub(super) fn answered(&self, code: StatusCode) {
        let server = self.server.to_owned();
        let labels = [("server", server), ("code", code.as_u16().to_string())];
        self.families.answers.get_or_create(&labels).inc();
    }

    fn closed(&self, limit: &'static str) {
        let labels = [("server", self.server), ("reason", limit)];
        self.families.closed.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(third: u8, last: u8) -> IpAddr {
        [10, 0, third, last].into()
    }

    #[test]
    fn one_address_has_few_places_and_all_together_have_a_bound() {
        let places = Places::new(ServingMetrics::default());
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let mut own: Vec<_> = (0..PER_PEER).map(|_| places.take(peer(0, 1))).collect();
        assert!(own.iter().all(Option::is_some));
        assert!(places.take(mapped).is_none(), "the same address");
        assert!(places.take(peer(0, 2)).is_some(), "another address");
        own.pop();
        assert!(places.take(mapped).is_some(), "one was given back");

        let others = (PER_PEER..TOTAL).map(|nth| places.take(peer(1, (nth / PER_PEER) as u8)));
        let others: Vec<_> = others.collect();
        assert!(others.iter().all(Option::is_some));
        assert!(places.take(peer(2, 1)).is_some());
        own.push(places.take(peer(2, 1)));
        assert!(places.take(peer(2, 2)).is_none(), "all are taken");
        drop((own, others));
        assert!(places.open.lock().is_empty());
    }
}
