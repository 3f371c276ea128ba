//! Notices that etcd has gone back in time, as after a restore from a backup.
//!
//! A revision that is lower than one seen before is no proof in a watch: another API server may be behind. A full list, and
//! an answer about one object, are as new as etcd.

use std::future::pending;

use outrigger_core::event::EventContent;
use tokio::sync::watch;

use super::health::{Resync, Sight};

/// The newest revision of etcd that one watch, or the election, has seen.
#[derive(Debug)]
pub(crate) struct EtcdRevision {
    of: &'static str,
    newest: u64,
    sight: Sight,
    doubts: watch::Receiver<Option<Resync>>,
}

impl EtcdRevision {
    /// Nothing was seen of these objects.
    pub(crate) fn new(of: &'static str, sight: &Sight) -> Self {
        Self {
            of,
            newest: 0,
            sight: sight.clone(),
            doubts: sight.doubts(),
        }
    }

    /// Returns false if a watch shows an older `version` than one before.
    pub(super) fn shown(&mut self, version: &str) -> bool {
        // The API server's word counts where it is no number.
        let version = version.parse().unwrap_or(self.newest);
        self.newest = self.newest.max(version);
        version == self.newest
    }

    /// A full list, or an answer about one object, is of `version`. An older one than before is of an etcd that has gone back:
    /// everything is in doubt, once for all who notice it.
    pub(crate) fn answered(&mut self, version: &str) {
        let Ok(version) = version.parse() else {
            return;
        };
        if version < self.newest {
            if !self.doubts.has_changed().unwrap_or_default() {
                let message = format!(
                    "etcd has gone back in time, as after a restore from a backup: {} are of revision {version}, and were of \
                     {}. All objects are listed again, each Service is ensured once, and routes to Nodes that are not \
                     there stay for an hour",
                    self.of, self.newest
                );
                self.sight
                    .doubt(EventContent::warning("EtcdRestored", &message));
            }
            self.doubts.mark_unchanged();
        }
        self.newest = version;
    }

    /// Returns once everything is in doubt, so that all objects have to be listed again.
    pub(super) async fn doubted(&mut self) {
        if self.doubts.changed().await.is_err() {
            pending::<()>().await;
        }
        self.newest = 0;
    }
}
