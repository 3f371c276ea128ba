//! Which Nodes are this provider's, and when they may be deleted.

use outrigger_core::selector::Selector;

use super::Findings;
use crate::options::{config::Deletion, flags::LifecycleFlags, values::positive};

pub(super) fn deletion(flags: &LifecycleFlags, f: &mut Findings) -> Deletion {
    let confirm = f.workers("node-deletion-confirm", flags.node_deletion_confirm);
    Deletion {
        enabled: flags.node_deletion_enabled.0,
        burst: f.count("node-deletion-burst", flags.node_deletion_burst),
        fraction: f.fraction("node-deletion-fraction", flags.node_deletion_fraction),
        window: f.take(positive("node-deletion-window", flags.node_deletion_window)),
        confirm: u32::try_from(confirm).unwrap_or(u32::MAX),
    }
}

pub(super) fn selector(text: &str, f: &mut Findings) -> Option<Selector> {
    if text.is_empty() {
        return None;
    }
    let selector = text.parse::<Selector>();
    selector
        .map_err(|error| f.errors.push(format!("--node-selector {text:?} {error}")))
        .ok()
}
