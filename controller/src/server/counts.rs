//! Counts of the HTTPS servers: `outrigger_https_*`.

use http::StatusCode;
use outrigger_runtime::{
    metric_families,
    telemetry::{Labels, TextLabels},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Connections and answers of the HTTPS servers; as registered, of the one with health and metrics.
#[derive(Clone, Debug, Default)]
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

impl ServingMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            server: "secure",
            families: ServingFamilies::register(registry),
        }
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

    pub(super) fn open(&self, connections: usize) {
        let labels = [("server", self.server)];
        let gauge = self.families.connections.get_or_create_owned(&labels);
        gauge.set(connections as i64);
    }

    pub(super) fn answered(&self, code: StatusCode) {
        let server = self.server.to_owned();
        let labels = [("server", server), ("code", code.as_u16().to_string())];
        self.families.answers.get_or_create(&labels).inc();
    }

    pub(super) fn closed(&self, limit: &'static str) {
        let labels = [("server", self.server), ("reason", limit)];
        self.families.closed.get_or_create(&labels).inc();
    }
}
