//! The provider's effects on Nodes, beside its answers about instances and routes.

use std::sync::Arc;

use outrigger_core::{
    effects::{Dropped, Effects, RawEffects},
    node::NodeView,
};
use tracing::warn;

use super::{Provider, Session};

impl Provider {
    /// The effects in `raw`, of an answer about `node`, that the provider may have. The others are counted, and logged
    /// once a minute.
    pub fn node_effects(&self, node: &NodeView, raw: RawEffects) -> Effects {
        let Some(session) = self.session() else {
            return Effects::default();
        };
        let allowed = session.node_effects.clone().unwrap_or_default();
        let effects = session.effects(raw, &allowed, &node.uid, node);
        self.shared
            .metrics
            .node_effects_dropped(effects.dropped.count());
        self.log_dropped_effects("node", &node.name, &effects.dropped);
        effects
    }

    /// Logs effects of an answer about the object that are not written. One mistake of a provider may concern all
    /// objects of a kind.
    pub fn log_dropped_effects(&self, kind: &str, object: &str, dropped: &Dropped) {
        // Without the capability all are left out, which the session logs.
        let declares = |session: Arc<Session>| session.declares_effects();
        if dropped.count() > 0
            && self.session().is_some_and(declares)
            && let Some(others) = self.shared.dropped_effects.due(kind)
        {
            warn!(
                kind,
                object,
                dropped = dropped.count(),
                others,
                error = %dropped,
                "effects of the provider not written"
            );
        }
    }
}
