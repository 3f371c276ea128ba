//! The parts of strategic merge patches that name one annotation or condition each, so that those of other
//! clients stay.

use outrigger_core::condition::{Condition, ConditionChange};
use serde_json::{Map, Value, json};

/// `metadata.annotations`: key and value; none removes the key.
pub(super) fn annotations(changes: &[(Box<str>, Option<Box<str>>)]) -> Value {
    let changes = changes.iter();
    let changes: Map<_, _> = changes
        .map(|(key, value)| (key.to_string(), json!(value)))
        .collect();
    changes.into()
}

/// One of `status.conditions`.
pub(super) fn condition(change: &ConditionChange) -> Value {
    match change {
        ConditionChange::Set(Condition {
            kind,
            status,
            reason,
            message,
            last_transition_time,
        }) => json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": last_transition_time.map(|at| at.to_string()),
        }),
        ConditionChange::Remove(kind) => json!({"type": kind, "$patch": "delete"}),
    }
}
