//! Counts of the HTTPS server: `outrigger_https_*`.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// No request for long.
    Idle,
    /// No TLS handshake in time.
    Handshake,
    /// Too many connections from its address.
    PeerLimit,
    /// Too many connections.
    TotalLimit,
}

impl Closed {
    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Handshake => "handshake",
            Self::PeerLimit => "peer_limit",
            Self::TotalLimit => "total_limit",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: &'static str,
}

/// Connections of the HTTPS server.
#[derive(Clone, Debug, Default)]
pub struct ServingMetrics {
    connections: Gauge,
    closed: Family<Labels, Counter>,
}

impl ServingMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register(
            "outrigger_https_connections",
            "Open connections of the HTTPS server",
            this.connections.clone(),
        );
        registry.register(
            "outrigger_https_connections_closed",
            "Connections that the HTTPS server closed: idle for long, no TLS handshake in time, or to make room at the limit per peer address or of all",
            this.closed.clone(),
        );
        this
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(test)]
    pub(crate) fn sample(&self) {
        self.open(1);
        self.closed(Closed::Idle);
    }

    pub(super) fn open(&self, connections: usize) {
        self.connections.set(connections as i64);
    }

    pub(super) fn closed(&self, reason: Closed) {
        self.closed
            .get_or_create(&Labels {
                reason: reason.name(),
            })
            .inc();
    }
}
