//! The provider's effects on a Node, as one write to `nodes/<name>/status`.
//!
//! The loops that look up Nodes pass the checked effects of each answer to [`plan`]; the write names only annotations and
//! conditions that the Node does not have yet. The conditions of maintenance and `NetworkUnavailable` are written by the
//! same [`EffectsWrite`].

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{condition::ConditionChange, effects::Effects, node::NodeView};

/// A write of annotations and conditions to the status of the Node that it was planned on. Each is named by itself, so that
/// those of other clients stay. Nothing in it is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectsWrite {
    /// `metadata.annotations`: key and value; none removes the key.
    pub annotations: Vec<(Box<str>, Option<Box<str>>)>,
    /// `status.conditions`, each type once.
    pub conditions: Vec<ConditionChange>,
    /// `lastHeartbeatTime` of the conditions.
    pub heartbeat: Timestamp,
    /// True if what others have written meanwhile has to stay: the resourceVersion is a precondition, as the UID always is.
    pub only_this_version: bool,
}

/// The write that gives `node` the annotations and conditions in `effects`, or none where it has them, and
/// for a Node that is paused.
pub fn plan(now: Timestamp, node: &NodeView, effects: &Effects) -> Option<EffectsWrite> {
    if node.is_paused() {
        return None;
    }
    // If two effects have the same key, the later counts.
    let annotations: BTreeMap<_, _> = effects.annotations.iter().map(|(k, v)| (k, v)).collect();
    let annotations: Vec<_> = annotations
        .into_iter()
        .filter(|(key, value)| node.annotations.get(key) != value.as_deref())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let conditions: BTreeMap<_, _> = effects.conditions.iter().map(|(k, c)| (k, c)).collect();
    let conditions: Vec<_> = conditions
        .into_iter()
        .filter_map(|(kind, condition)| match condition {
            Some(condition) => ConditionChange::set(
                now,
                &node.conditions,
                kind,
                condition.status,
                &condition.reason,
                &condition.message,
            ),
            None => ConditionChange::remove(&node.conditions, kind),
        })
        .collect();
    let is_empty = annotations.is_empty() && conditions.is_empty();
    (!is_empty).then_some(EffectsWrite {
        annotations,
        conditions,
        heartbeat: now,
        only_this_version: false,
    })
}

impl EffectsWrite {
    /// The write of these conditions alone.
    pub(crate) const fn of_conditions(now: Timestamp, conditions: Vec<ConditionChange>) -> Self {
        Self {
            annotations: Vec::new(),
            conditions,
            heartbeat: now,
            only_this_version: false,
        }
    }

    /// The view of whatever `node` is by now once this is written.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        let mut conditions = ConditionChange::apply_all(&self.conditions, &node.conditions);
        conditions.sort_unstable_by(|a, b| a.kind.cmp(&b.kind));
        NodeView {
            annotations: node.annotations.changed(&self.annotations),
            conditions,
            resource_version: resource_version.into(),
            ..node.clone()
        }
    }
}

#[cfg(test)]
mod tests;
