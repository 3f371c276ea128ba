//! The last decisions about each object, in memory: why it is as it is. A decision is its rule and a sentence.
//!
//! Nothing waits for it, and no decision depends on it.

use std::{borrow::Cow, collections::HashMap, fmt, mem, sync::Arc};

use jiff::Timestamp;
use outrigger_core::decision::DecisionReason;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::time_of_day;

/// The Node of this name, as an object of decisions.
pub fn node(name: &str) -> String {
    format!("node/{name}")
}

/// The Service of this namespace and name, as an object of decisions.
pub fn service(namespace: &str, name: &str) -> String {
    format!("service/{namespace}/{name}")
}

/// The answer of `/explain/`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// `node/NAME`, `service/NAMESPACE/NAME`.
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
pub struct History(Option<Arc<Mutex<Memory>>>);

impl History {
    /// Remembers decisions in at most `bytes` of memory; 0: none.
    pub fn new(bytes: usize) -> Self {
        Self((bytes > 0).then(|| Arc::new(Mutex::new(Memory::new(bytes)))))
    }

    /// Returns true if decisions are remembered.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Notes a decision of `source` about `object`. `why` is not called if nothing is remembered.
    pub fn decided(
        &self,
        source: &'static str,
        object: String,
        kind: &'static str,
        why: impl FnOnce() -> DecisionReason,
    ) {
        let Some(memory) = &self.0 else { return };
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
        memory.lock().add(object, decision);
    }

    /// The decisions about `object`, the newest last.
    pub fn explain(&self, object: &str) -> Vec<NotedDecision> {
        let Some(memory) = &self.0 else {
            return Vec::new();
        };
        let memory = memory.lock();
        let mut generations = [&memory.young, &memory.old].into_iter();
        let decisions = generations.find_map(|objects| objects.by_name.get(object));
        decisions.cloned().unwrap_or_default()
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

/// Decisions about one object.
const OF_OBJECT: usize = 16;

/// Memory of a decision beside its text: the entry, and what an allocator adds.
const OVERHEAD: usize = 320;

/// Decisions by object, in two generations: an object that is decided about is young. When the young ones have half of the
/// memory they are the old ones, and the former old ones are forgotten.
struct Memory {
    limit: usize,
    young: Objects,
    old: Objects,
}

#[derive(Default)]
struct Objects {
    by_name: HashMap<String, Vec<NotedDecision>>,
    bytes: usize,
}

impl Memory {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            young: Objects::default(),
            old: Objects::default(),
        }
    }

    /// Adds a decision about `object`. It counts for an earlier one of the same source, kind and rule too.
    fn add(&mut self, object: String, mut decision: NotedDecision) {
        let held = self.young.remove(&object);
        let held = held.or_else(|| self.old.remove(&object));
        let mut decisions = held.unwrap_or_default();
        let alike = decisions.iter().position(|earlier| {
            (&earlier.source, &earlier.kind, &earlier.rule)
                == (&decision.source, &decision.kind, &decision.rule)
        });
        if let Some(at) = alike {
            let earlier = decisions.remove(at);
            decision.count += earlier.count;
            decision.first = earlier.first;
        } else if decisions.len() >= OF_OBJECT {
            decisions.remove(0);
        }
        decisions.push(decision);
        self.young.bytes += size(&decisions);
        self.young.by_name.insert(object, decisions);
        if self.young.bytes > self.limit / 2 {
            self.old = mem::take(&mut self.young);
        }
    }
}

impl Objects {
    fn remove(&mut self, object: &str) -> Option<Vec<NotedDecision>> {
        let decisions = self.by_name.remove(object)?;
        self.bytes -= size(&decisions);
        Some(decisions)
    }
}

fn size(decisions: &[NotedDecision]) -> usize {
    let sizes = decisions
        .iter()
        .map(|decision| decision.text.len() + OVERHEAD);
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The explanation of a Node, each line as its rule, its count and its text.
    fn lines(history: &History, name: &str) -> Vec<String> {
        let decisions = history.explain(&node(name)).into_iter();
        let line = |one: NotedDecision| format!("{} {} {}", one.rule, one.count, one.text);
        decisions.map(line).collect()
    }

    fn note(history: &History, object: String, rule: &'static str, text: &str) {
        let text = text.to_owned();
        history.decided("test", object, "sync", || DecisionReason { rule, text });
    }

    fn bytes(history: &History) -> usize {
        let memory = history.0.as_ref().unwrap().lock();
        memory.young.bytes + memory.old.bytes
    }

    #[test]
    fn lines_that_are_alike_are_counted_and_the_newest_text_is_shown() {
        let history = History::new(1 << 20);
        for (rule, text) in [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3")] {
            note(&history, node("n"), rule, text);
        }
        note(&history, service("n", "n"), "a", "of a Service");
        assert_eq!(lines(&history, "n"), ["b 1 1", "a 3 3"]);
        assert_eq!(lines(&history, "unknown"), [""; 0]);
    }

    #[test]
    fn the_last_decision_outlives_a_thousand_refreshes_that_change_nothing() {
        let history = History::new(8_000);
        note(&history, node("n0"), "refresh", "an address");
        for _ in 0..1_000 {
            for name in ["n0", "n1", "n2", "n3", "n4"] {
                note(&history, node(name), "in_sync", "as it is");
            }
        }
        let bytes = bytes(&history);
        assert!(bytes < 6_000, "{bytes}");
        assert_eq!(
            lines(&history, "n0"),
            ["refresh 1 an address", "in_sync 1000 as it is"]
        );
    }

    #[test]
    fn memory_is_bounded_for_each_object_and_as_a_whole() {
        const RULES: [&str; 20] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16", "17", "18", "19",
        ];
        let history = History::new(100_000);
        for rule in RULES {
            note(&history, node("n"), rule, "");
        }
        let kept = lines(&history, "n");
        assert_eq!(kept.len(), 16);
        assert!(
            kept[0].starts_with("4 ") && kept[15].starts_with("19 "),
            "{kept:?}"
        );
        for at in 0..10_000 {
            note(&history, node(&format!("n{at}")), "x", &"y".repeat(100));
        }
        let bytes = bytes(&history);
        assert!((50_000..101_000).contains(&bytes), "{bytes}");
        // The objects that were decided about last are kept.
        assert_eq!(lines(&history, "n"), [""; 0]);
        assert_eq!(lines(&history, "n0"), [""; 0]);
        assert_eq!(lines(&history, "n9999").len(), 1);
    }
}
