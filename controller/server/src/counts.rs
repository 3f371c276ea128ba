//! Counts of the HTTPS server: `outrigger_https_*`.

use http::StatusCode;
use outrigger_runtime::{
    metric_families,
    telemetry::{Labels, TextLabels},
};
use prometheus_client::{
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

/// A server, for labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerName {
    /// The server on `--secure-port`.
    #[default]
    Secure,
    /// The server on `--webhook-secure-port`.
    Webhook,
}

impl ServerName {
    const fn name(self) -> &'static str {
        match self {
            Self::Secure => "secure",
            Self::Webhook => "webhook",
        }
    }
}

/// Connections and answers of the HTTPS servers; as registered, of the one with health and metrics.
#[derive(Clone, Debug, Default)]
pub struct ServingMetrics {
    server: ServerName,
    families: ServingFamilies,
}

metric_families! {
    struct ServingFamilies {
        connections: Family<Labels<1>, Gauge>,
            "outrigger_https_connections", "Open connections of an HTTPS server";
        closed: Family<Labels<2>, Counter>,
            "outrigger_https_connections_closed",
            "Connections that an HTTPS server closed: idle for long, no TLS handshake in time, or to make room at the limit per peer address or of all";
        answers: Family<TextLabels<2>, Counter>,
            "outrigger_https_requests", "Requests to an HTTPS server, by code of the answer";
    }
}

impl ServingMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            server: ServerName::default(),
            families: ServingFamilies::register(registry),
        }
    }

    /// The same families for another server.
    #[must_use]
    pub fn of(&self, server: ServerName) -> Self {
        Self {
            server,
            ..self.clone()
        }
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        self.open(1);
        self.closed(Closed::Idle);
        self.answered(StatusCode::OK);
    }

    pub(super) fn open(&self, connections: usize) {
        let labels = [("server", self.server.name())];
        let gauge = self.families.connections.get_or_create_owned(&labels);
        gauge.set(connections as i64);
    }

    pub(super) fn answered(&self, code: StatusCode) {
        let server = self.server.name().to_owned();
        let labels = [("server", server), ("code", code.as_u16().to_string())];
        self.families.answers.get_or_create(&labels).inc();
    }

    pub(super) fn closed(&self, reason: Closed) {
        let labels = [("server", self.server.name()), ("reason", reason.name())];
        self.families.closed.get_or_create(&labels).inc();
    }
}
