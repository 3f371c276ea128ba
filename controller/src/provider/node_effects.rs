//! The provider's effects on Nodes, beside its answers about instances and routes.

use outrigger_core::effects::{Effects, RawEffects};
use tracing::warn;

use super::Provider;

impl Provider {
    /// The effects in `raw`, of an answer about the Node `node`, that the provider may have. The others are
    /// counted, and logged once a minute. [`NodeWriter::write_effects`] writes them.
    ///
    /// [`NodeWriter::write_effects`]: crate::kube::nodes::NodeWriter::write_effects
    pub fn node_effects(&self, node: &str, raw: RawEffects) -> Effects {
        let Some(session) = self.session() else {
            return Effects::default();
        };
        let allowed = session.node_effects.clone().unwrap_or_default();
        let effects = session.effects(raw, &allowed);
        if effects.dropped > 0 {
            self.shared.metrics.node_effects_dropped(effects.dropped);
            // Without the capability all are left out, which the session logs.
            if session.declares_effects()
                && let Some(others) = self.shared.dropped_effects.due("")
            {
                let dropped = effects.dropped;
                warn!(
                    node,
                    dropped,
                    others,
                    "the provider wants events, annotations or conditions of the Node that it may not have, or \
                     too many of them; they are left out"
                );
            }
        }
        effects
    }
}
