//! Counters of requests to the mock, and of its calls to its cloud.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// All counts since the start or the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Counts {
    /// gRPC calls by method, then by code (`OK`, `UNAVAILABLE`, …).
    pub calls: BTreeMap<String, BTreeMap<String, u64>>,
    /// Items asked for by method: the nodes of all batches together.
    pub items: BTreeMap<String, u64>,
    /// Calls to the cloud by operation.
    pub cloud: BTreeMap<String, CloudCounts>,
}

/// Calls to the cloud of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CloudCounts {
    /// Calls that the cloud accepted.
    pub served: u64,
    /// Calls that its rate limit refused.
    pub rate_limited: u64,
}

impl Counts {
    /// gRPC calls of one method that ended with one code.
    pub fn calls(&self, method: &str, code: &str) -> u64 {
        self.calls
            .get(method)
            .and_then(|codes| codes.get(code))
            .copied()
            .unwrap_or_default()
    }

    /// Calls that the cloud accepted, of all operations.
    pub fn cloud_calls(&self) -> u64 {
        self.cloud.values().map(|counts| counts.served).sum()
    }
}

/// Counts while they are made.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Counts>);

impl Counters {
    pub(crate) fn call_ended(&self, method: &str, code: &str) {
        let mut counts = self.0.lock();
        let codes = entry(&mut counts.calls, method);
        *entry(codes, code) += 1;
    }

    pub(crate) fn items_asked(&self, method: &str, items: usize) {
        *entry(&mut self.0.lock().items, method) += items as u64;
    }

    pub(crate) fn cloud_called(&self, operation: &str, served: bool) {
        let mut counts = self.0.lock();
        let operation = entry(&mut counts.cloud, operation);
        if served {
            operation.served += 1;
        } else {
            operation.rate_limited += 1;
        }
    }

    pub(crate) fn read(&self) -> Counts {
        self.0.lock().clone()
    }

    /// Reads and starts again at zero, with no call lost in between.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut self.0.lock())
    }
}

fn entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, key: &str) -> &'a mut V {
    map.entry(key.to_owned()).or_default()
}
