//! Nodes that the provider does not manage, as it has answered.
//!
//! The loops cloud-node and cloud-node-lifecycle share one [`NotManaged`]: an answer to one of them spares the other the
//! question. It is forgotten after some minutes, with the Node, with the provider's process, and at the beginning of each
//! lease term.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use outrigger_core::node::NodeView;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::info;

use outrigger_kube::store::{Change, Store};

/// So long the answer counts: one mistake of a provider must not last as long as its process.
pub(crate) const ASKED_AGAIN: Duration = Duration::from_mins(5);

/// Nodes that the provider does not manage, with the lookup's input: as long as that is the same
/// (UID, provider ID, labels, and the life of the provider's process), no lookup is sent for [`ASKED_AGAIN`].
/// Shared by the loops.
#[derive(Debug, Default)]
pub struct NotManaged(Mutex<HashMap<Arc<str>, Answer>>);

#[derive(Clone, Copy, Debug)]
struct Answer {
    question: u64,
    since: Instant,
}

impl NotManaged {
    /// Without answers; it forgets each Node that `nodes` shows no more.
    pub fn of(nodes: &Store<NodeView>) -> Arc<Self> {
        let this = Arc::<Self>::default();
        let kept = Arc::clone(&this);
        nodes.subscribe(move |change: &Change<'_, NodeView>, _| {
            if let Change::Deleted(node) = change {
                kept.0.lock().remove(&node.name);
            }
        });
        this
    }

    /// Remembers the answer about `node`, and logs it once. The answer about a node that `nodes` shows no more is
    /// not remembered.
    pub fn remember(&self, nodes: &Store<NodeView>, node: &NodeView, boot_id: &str, reason: &str) {
        let answer = Answer {
            question: question(node, boot_id),
            since: Instant::now(),
        };
        let mut answers = self.0.lock();
        // Under the lock: its deletion is handled after this, or has been.
        if nodes.get(&node.name).is_none() {
            return;
        }
        let is_known = match answers.entry(Arc::clone(&node.name)) {
            Entry::Occupied(mut entry) => entry.insert(answer).question == answer.question,
            Entry::Vacant(entry) => {
                entry.insert(answer);
                false
            }
        };
        drop(answers);
        if !is_known {
            info!(
                node = &*node.name,
                reason, "node not managed by the provider"
            );
        }
    }

    /// Returns true if the provider has answered the same question lately.
    pub fn knows(&self, node: &NodeView, boot_id: &str) -> bool {
        let answer = self.0.lock().get(&node.name).copied();
        answer.is_some_and(|answer| {
            answer.question == question(node, boot_id) && answer.since.elapsed() < ASKED_AGAIN
        })
    }

    /// Forgets all answers, since a lease term begins.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

fn question(node: &NodeView, boot_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&node.uid, &node.provider_id, &node.labels, boot_id).hash(&mut hasher);
    hasher.finish()
}
