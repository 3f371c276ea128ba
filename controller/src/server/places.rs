//! How many connections there may be, in all and of one address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tracing::warn;

use super::counts::ServingMetrics;
use outrigger_runtime::telemetry::Repeats;

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
