//! A log of the calls that callers made, for tests that check the order of events while it happens.
//!
//! One JSON object a line: each call when it begins, and each load balancer when it is created and when its
//! deletion begins. A line is written in one step before the call goes on, so that a `kill -9` of the mock loses
//! none. Several mocks may append to one file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::faults::Method;

/// A file that lines are appended to.
#[derive(Debug)]
pub struct Journal {
    file: Mutex<File>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Line {
    /// Microseconds since 1970, by the clock of the machine.
    pub at: u64,
    /// Process id of the mock.
    pub process: u32,
    /// Event of the line.
    pub event: Event,
}

/// Event in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// A call arrived, before any fault.
    #[serde(rename_all = "camelCase")]
    CallBegan {
        /// Its method.
        method: Method,
        /// The Services that it is about; empty for methods that are about none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        services: Vec<ServiceName>,
    },
    /// The cloud has one load balancer more.
    LoadBalancerCreated(LoadBalancerName),
    /// A load balancer began to be deleted.
    LoadBalancerDeleted(LoadBalancerName),
}

/// Which Service a call is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceName {
    /// `namespace/name`.
    pub name: String,
    /// metadata.uid.
    pub uid: String,
}

/// Which load balancer it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoadBalancerName {
    /// Its id.
    pub id: String,
    /// UID of the Service in its tags; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl Journal {
    /// Appends to this file, which is made if it is not there.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open the journal {}", path.display()))?;
        Ok(Self {
            file: Mutex::new(file),
        })
    }

    /// Appends a line. A line that cannot be written is logged: the mock serves on.
    pub(crate) fn record(&self, event: Event) {
        // Read under the lock, so that times never go back within a process.
        let mut file = self.file.lock();
        let line = Line {
            at: jiff::Timestamp::now().as_microsecond() as u64,
            process: std::process::id(),
            event,
        };
        let written = serde_json::to_vec(&line)
            .map_err(std::io::Error::from)
            .and_then(|mut text| {
                text.push(b'\n');
                file.write_all(&text)
            });
        if let Err(error) = written {
            tracing::error!(%error, "a line of the journal is lost");
        }
    }
}
