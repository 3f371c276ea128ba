//! The last decisions about each object, in memory: why it is as it is. A decision is its rule and a sentence.
//!
//! Nothing waits for it, and no decision depends on it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;
use outrigger_core::decision::DecisionReason;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use serde::{Deserialize, Serialize};

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

/// The answer of `/explain/`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The object, as [`Subject`] shows it.
    pub object: String,
    /// False: it is gone.
    pub exists: bool,
    /// The replica that decided.
    pub leader: String,
    /// The last decisions about it, the newest last.
    pub decisions: Vec<NotedDecision>,
}

/// A decision, and how often it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NotedDecision {
    /// How often, since `first`.
    pub count: u64,
    /// When first, by the time of day.
    pub first: Timestamp,
    /// When last.
    pub last: Timestamp,
    /// The loop, or the client of the API server.
    pub source: Cow<'static, str>,
    /// The kind of decision or work: `refresh`, `ensure`, or `PATCH`.
    pub kind: Cow<'static, str>,
    /// The rule that decided, or the class of the result.
    pub rule: Cow<'static, str>,
    /// For people.
    pub text: String,
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
        let Some(shared) = &self.0 else { return };
        let DecisionReason { rule, text } = why();
        let now = time_of_day();
        let decision = NotedDecision {
            count: 1,
            first: now,
            last: now,
            source: source.into(),
            kind: kind.into(),
            rule: rule.into(),
            text,
        };
        let mut ring = shared.ring.lock();
        ring.add(subject.to_string(), decision);
        shared.metrics.bytes.set(ring.bytes() as i64);
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

    /// The decisions about `subject`, the newest last.
    pub fn explain(&self, subject: Subject<'_>) -> Vec<NotedDecision> {
        let decisions = self.0.as_ref().map(|shared| {
            let ring = shared.ring.lock();
            ring.explain(&subject.to_string())
        });
        decisions.unwrap_or_default()
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

/// Decisions about one object.
const OF_OBJECT: usize = 16;

/// Memory of a decision beside its text: the entry, its place in the order, and what an allocator adds.
const OVERHEAD: usize = 320;

/// A few decisions about each object, within a number of bytes: the oldest of all goes first.
#[derive(Debug)]
struct Ring {
    limit: usize,
    bytes: usize,
    next: u64,
    /// By object, each with its number.
    objects: HashMap<Arc<str>, Vec<(u64, NotedDecision)>>,
    /// The object of each decision, from the oldest.
    order: BTreeMap<u64, Arc<str>>,
}

impl Ring {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            next: 0,
            objects: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a decision about `object`. It counts for an earlier one of the same source, kind and rule too.
    fn add(&mut self, object: String, mut decision: NotedDecision) {
        let object: Arc<str> = object.into();
        let entries = self.objects.get(&object).map_or(&[][..], Vec::as_slice);
        let is_alike = |other: &NotedDecision| {
            (&other.source, &other.kind, &other.rule)
                == (&decision.source, &decision.kind, &decision.rule)
        };
        let alike = entries.iter().find(|(_, other)| is_alike(other));
        if let Some((_, earlier)) = alike {
            decision.count += earlier.count;
            decision.first = earlier.first;
        }
        let oldest = entries.first().filter(|_| entries.len() >= OF_OBJECT);
        let replaced = alike.or(oldest).map(|(number, _)| *number);
        if let Some(number) = replaced {
            self.forget(number);
        }
        self.bytes += size(&decision);
        self.order.insert(self.next, Arc::clone(&object));
        let entries = self.objects.entry(object).or_default();
        entries.push((self.next, decision));
        self.next += 1;
        while self.bytes > self.limit
            && let Some((oldest, _)) = self.order.first_key_value()
        {
            self.forget(*oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(object) = self.order.remove(&number) else {
            return;
        };
        let Some(entries) = self.objects.get_mut(&object) else {
            return;
        };
        if let Some(at) = entries.iter().position(|(of, _)| *of == number) {
            let (_, decision) = entries.remove(at);
            self.bytes -= size(&decision);
        }
        if entries.is_empty() {
            self.objects.remove(&object);
        }
    }

    /// The decisions about `object`, the newest last.
    fn explain(&self, object: &str) -> Vec<NotedDecision> {
        let entries = self.objects.get(object).into_iter().flatten();
        entries.map(|(_, decision)| decision.clone()).collect()
    }
}

fn size(decision: &NotedDecision) -> usize {
    decision.text.len() + OVERHEAD
}

#[cfg(test)]
mod tests;
