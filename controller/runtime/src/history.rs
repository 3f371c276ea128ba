//! The last decisions about each object, in memory: why it is as it is. A decision is its rule and a sentence.
//!
//! Nothing waits for it, and no decision depends on it.

mod ring;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, sync::Arc};

use jiff::Timestamp;
use outrigger_core::decision::DecisionReason;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use serde::{Deserialize, Serialize};

use self::ring::{LineKey, Ring};
use crate::{clock::time_of_day, metric_families};

metric_families! {
    /// Metrics of the history.
    pub struct HistoryMetrics {
        bytes: Gauge,
            "outrigger_history_bytes", "Memory of the decisions that are remembered, which explain shows";
    }
}

/// The object of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    kind: &'static str,
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> Subject<'a> {
    /// The Node of this name.
    pub const fn node(name: &'a str) -> Self {
        Self {
            kind: "node",
            namespace: None,
            name,
        }
    }

    /// The Service of this namespace and name.
    pub const fn service(namespace: &'a str, name: &'a str) -> Self {
        Self {
            kind: "service",
            namespace: Some(namespace),
            name,
        }
    }
}

impl fmt::Display for Subject<'_> {
    /// `node/NAME`, `service/NAMESPACE/NAME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// A line of the answer of `/explain/`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<'a> {
    /// When, by the time of day.
    pub time: Timestamp,
    /// The object, as [`Subject`] shows it.
    pub object: Cow<'a, str>,
    /// The loop, or the client of the API server.
    pub source: Cow<'a, str>,
    /// The kind of decision or work: `refresh`, `ensure`, or `PATCH`.
    pub kind: Cow<'a, str>,
    /// The rule that decided, or the class of the result.
    pub rule: Cow<'a, str>,
    /// For people.
    pub text: Cow<'a, str>,
}

/// The last decisions about each object. Clones share them; by default nothing is remembered.
#[derive(Clone, Default)]
pub struct History(Option<Arc<Shared>>);

struct Shared {
    ring: Mutex<Ring>,
    metrics: HistoryMetrics,
}

impl History {
    /// Remembers decisions in at most `bytes` of memory; 0: none.
    pub fn new(bytes: usize, metrics: HistoryMetrics) -> Self {
        Self((bytes > 0).then(|| {
            Arc::new(Shared {
                ring: Mutex::new(Ring::new(bytes)),
                metrics,
            })
        }))
    }

    /// Returns true if decisions are remembered.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Notes a decision of `source` about `subject`. `why` is not called if nothing is remembered.
    pub fn decided(
        &self,
        source: &'static str,
        subject: Subject<'_>,
        kind: &'static str,
        why: impl FnOnce() -> DecisionReason,
    ) {
        if let Some(shared) = &self.0 {
            shared.note(source, subject, kind, why());
        }
    }

    /// Notes what is no decision of core: the result of a call or write, or why an object is left alone. `text` is not
    /// called if nothing is remembered.
    pub fn noted(
        &self,
        source: &'static str,
        subject: Subject<'_>,
        kind: &'static str,
        rule: &'static str,
        text: impl FnOnce() -> String,
    ) {
        self.decided(source, subject, kind, || DecisionReason {
            rule,
            text: text(),
        });
    }

    /// The decisions about `subject`, each a [`Line`] with its count and the time of the first, as a JSON array in the order
    /// of their last times; none if there are none.
    pub fn explain(&self, subject: Subject<'_>) -> Option<String> {
        let shared = self.0.as_ref()?;
        shared.ring.lock().explain(&subject.to_string())
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

impl Shared {
    fn note(
        &self,
        source: &'static str,
        subject: Subject<'_>,
        kind: &'static str,
        DecisionReason { rule, text }: DecisionReason,
    ) {
        let (time, object) = (time_of_day(), subject.to_string());
        let line = Line {
            time,
            object: Cow::Borrowed(&*object),
            source: source.into(),
            kind: kind.into(),
            rule: rule.into(),
            text: text.into(),
        };
        // Texts and a time: nothing that JSON cannot hold.
        let line = serde_json::to_string(&line).unwrap_or_default();
        let key = LineKey { source, kind, rule };
        let mut ring = self.ring.lock();
        ring.add(object, key, time, line.into());
        self.metrics.bytes.set(ring.bytes() as i64);
    }
}
