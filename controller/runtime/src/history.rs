//! The last decisions about each object, in memory and, if asked for, in a file: why it is as it is.
//!
//! ```text
//!  loop ─► decided, noted ─► one line of JSON ─┬─► ring: the last of each object, within a number of bytes
//!                                              └─► recording: a file, by a thread of its own
//! ```
//!
//! Nothing waits for it, and no decision depends on it.

mod recording;
mod ring;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, sync::Arc};

use jiff::Timestamp;
use outrigger_core::decision::{DecisionOutcome, DecisionReason, RecordedDecision};
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::recording::{FORMAT, Header, Recording};
use self::ring::{LineKey, Ring};
use crate::{clock::time_of_day, metric_families};

metric_families! {
    /// Metrics of the history.
    pub struct HistoryMetrics {
        bytes: Gauge,
            "outrigger_history_bytes", "Memory of the decisions that are remembered, which explain shows";
        recorded: Counter,
            "outrigger_recording_lines", "Lines written to the file of --record";
        lost: Counter,
            "outrigger_recording_lines_lost",
            "Lines that are not in the file of --record, since it could not be written or not fast enough";
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

/// A line of a recording, and of the answer of `/explain/`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<'a, O> {
    /// When, by the time of day.
    pub time: Timestamp,
    /// The object, as [`Subject`] shows it.
    pub object: Cow<'a, str>,
    /// The loop, or the client of the API server.
    pub source: Cow<'a, str>,
    /// The kind of decision or work: the name of a decision, or `PATCH`.
    pub kind: Cow<'a, str>,
    /// The rule that decided, or the class of the result.
    pub rule: Cow<'a, str>,
    /// For people.
    pub text: Cow<'a, str>,
    /// The inputs; absent for what is no decision of core, and for inputs that are too large. Only a recording has those of
    /// a Node that is in sync.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub decision: Option<RecordedDecision<'a>>,
    /// The outcome of the decision.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub outcome: Option<O>,
}

impl Line<'_, Value> {
    /// Makes the decision of the line again. Returns true if its outcome is the same, false if the line has no inputs.
    ///
    /// # Errors
    /// The outcome now, where it is another.
    pub fn replay(self) -> Result<bool, Box<Difference>> {
        let Some(decision) = self.decision else {
            return Ok(false);
        };
        let recorded = self.outcome.unwrap_or_default();
        // Texts, numbers and maps with texts as their keys: nothing that JSON cannot hold.
        let now = serde_json::to_value(decision.decide()).unwrap_or_default();
        if now == recorded {
            return Ok(true);
        }
        Err(Box::new(Difference { recorded, now }))
    }
}

/// A decision that is another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The outcome in the recording.
    pub recorded: Value,
    /// The outcome of the same inputs now.
    pub now: Value,
}

const fn none<T>() -> Option<T> {
    None
}

/// The last decisions about each object. Clones share them; by default nothing is remembered.
#[derive(Clone, Default)]
pub struct History(Option<Arc<Shared>>);

struct Shared {
    ring: Mutex<Ring>,
    recording: Option<Recording>,
    metrics: HistoryMetrics,
    #[cfg(any(test, feature = "fixture"))]
    is_checked: bool,
}

impl History {
    /// Remembers decisions in at most `bytes` of memory, 0 for none, and writes all of them to `recording`. The
    /// memory has only the time of a Node that is in sync, and how often it was.
    pub fn new(bytes: usize, recording: Option<Recording>, metrics: HistoryMetrics) -> Self {
        let is_on = bytes > 0 || recording.is_some();
        Self(is_on.then(|| {
            Arc::new(Shared {
                ring: Mutex::new(Ring::new(bytes)),
                recording,
                metrics,
                #[cfg(any(test, feature = "fixture"))]
                is_checked: false,
            })
        }))
    }

    /// A history that makes each decision again, from the line that a recording would have, and panics if it is another.
    #[cfg(any(test, feature = "fixture"))]
    pub fn checked() -> Self {
        Self(Some(Arc::new(Shared {
            ring: Mutex::new(Ring::new(1 << 20)),
            recording: None,
            metrics: HistoryMetrics::default(),
            is_checked: true,
        })))
    }

    /// Returns true if decisions are remembered or recorded: only then their inputs need to be kept for a moment.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Notes a decision of `source` about `subject`, which `make` shows; it is not called if nothing is remembered.
    pub fn decided<'a>(
        &self,
        source: &'static str,
        subject: Subject<'_>,
        make: impl FnOnce() -> (RecordedDecision<'a>, DecisionOutcome<'a>),
    ) {
        if let Some(shared) = &self.0 {
            let (decision, outcome) = make();
            let kind = decision.name();
            let reason = DecisionReason::of(&decision, &outcome);
            shared.note(source, subject, kind, reason, Some((decision, outcome)));
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
        if let Some(shared) = &self.0 {
            let text = text();
            shared.note(source, subject, kind, DecisionReason { rule, text }, None);
        }
    }

    /// The decisions about `subject`, each a [`Line`] with its count and the time of the first, as a JSON array in the order
    /// of their last times; none if there are none.
    pub fn explain(&self, subject: Subject<'_>) -> Option<String> {
        let shared = self.0.as_ref()?;
        shared.ring.lock().explain(&subject.to_string())
    }

    /// Returns true if decisions are kept in memory.
    pub fn is_kept(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| shared.ring.lock().is_kept())
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
        reason: DecisionReason,
        decided: Option<(RecordedDecision<'_>, DecisionOutcome<'_>)>,
    ) {
        let object = subject.to_string();
        let is_in_sync = reason.is_in_sync();
        let (decision, outcome) = decided.unzip();
        let mut line = Line {
            time: time_of_day(),
            object: Cow::Borrowed(&*object),
            source: source.into(),
            kind: kind.into(),
            rule: reason.rule.into(),
            text: reason.text.into(),
            decision,
            outcome,
        };
        // Texts, numbers and maps with texts as their keys: nothing that JSON cannot hold.
        let whole = serde_json::to_string(&line).unwrap_or_default();
        #[cfg(any(test, feature = "fixture"))]
        if self.is_checked {
            assert_again(&whole);
        }
        let mut shown: Arc<str> = whole.into();
        if let Some(recording) = &self.recording
            && !recording.write(Arc::clone(&shown))
        {
            self.metrics.lost.inc();
        }
        // Thousands of Nodes are in sync each few minutes: with their inputs they would push out what was decided.
        if is_in_sync || shown.len() > ring::LONGEST {
            (line.decision, line.outcome) = (None, None);
            shown = serde_json::to_string(&line).unwrap_or_default().into();
        }
        let time = line.time;
        let key = LineKey {
            source,
            kind,
            rule: reason.rule,
        };
        let mut ring = self.ring.lock();
        ring.add(object, key, time, shown);
        self.metrics.bytes.set(ring.bytes() as i64);
    }
}

/// Panics if `line` is a decision that is another when it is made again.
#[cfg(any(test, feature = "fixture"))]
#[expect(clippy::panic, clippy::unwrap_used, reason = "only tests call it")]
fn assert_again(line: &str) {
    let read: Line<'_, Value> = serde_json::from_str(line).unwrap();
    if let Err(difference) = read.replay() {
        panic!("{line}: {difference:?}");
    }
}
