//! The taint of a node whose instance is stopped.

use crate::node::{
    EFFECT_NO_SCHEDULE, NodeView, TAINT_SHUTDOWN, Taint,
    change::{NodeChange, TaintAddition, TaintRemoval},
};

/// The patch that adds the taint, unless it is there (Q-19: decided on the store's view).
pub fn addition(node: &NodeView) -> Option<TaintAddition> {
    let taint = || Taint {
        key: TAINT_SHUTDOWN.into(),
        value: "".into(),
        effect: EFFECT_NO_SCHEDULE.into(),
    };
    (!node.is_shut_down()).then(|| TaintAddition::of(node, taint()))
}

/// The patch that removes the taint, if it is there.
pub fn removal(node: &NodeView) -> Option<NodeChange> {
    let taints = node.taints.iter().enumerate().rev();
    let removals = taints
        .filter(|(_, taint)| taint.is_shutdown())
        .map(|(index, taint)| TaintRemoval::of(index, taint))
        .collect();
    NodeChange::of(node, removals, None, Vec::new())
}
