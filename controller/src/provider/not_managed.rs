//! Nodes that the provider does not manage.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use outrigger_core::node::NodeView;
use parking_lot::Mutex;
use tracing::info;

/// Nodes that the provider does not manage, with the lookup's input: as long as that is the same
/// (UID, provider ID, labels, and the life of the provider's process), no lookup is sent. Shared by
/// the loops.
#[derive(Debug, Default)]
pub struct NotManaged(Mutex<HashMap<Arc<str>, u64>>);

impl NotManaged {
    /// Remembers the answer about `node`, and logs it.
    pub fn remember(&self, node: &NodeView, boot_id: &str, reason: &str) {
        info!(
            node = &*node.name,
            reason, "node not managed by the provider"
        );
        let question = question(node, boot_id);
        self.0.lock().insert(Arc::clone(&node.name), question);
    }

    /// Whether the provider would be asked what it has answered already.
    pub fn knows(&self, node: &NodeView, boot_id: &str) -> bool {
        let known = self.0.lock().get(&node.name).copied();
        known.is_some_and(|known| known == question(node, boot_id))
    }

    /// A lease term begins: everything is asked anew.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// The node is gone.
    pub fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

fn question(node: &NodeView, boot_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&node.uid, &node.provider_id, &node.labels, boot_id).hash(&mut hasher);
    hasher.finish()
}
