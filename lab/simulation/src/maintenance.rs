//! Maintenance that the cloud announces, an operator's marks that look alike, and what Nodes show of both.

use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use outrigger_provider_mock::instances::Maintenance;
use serde_json::{Value, json};

use crate::host;

/// A Node has the taint so long before its machine is maintained.
pub const TAINT_BEFORE: Duration = Duration::from_hours(6);

const CONDITION: &str = "MaintenancePlanned";
const TAINT: &str = "outrigger.dev/maintenance-planned";

/// Reason of an operator's condition, and value of the taint.
const OPERATOR: &str = "Operator";

const HOUR: i64 = 3600;

/// An announcement by chance, or none. Its taint is due now, never in a run, or within `soon`.
pub fn draw(soon: Duration, random: &mut Rng) -> Option<Maintenance> {
    let due_soon = TAINT_BEFORE + soon;
    let begins = [
        None,
        Some(-HOUR),
        Some(HOUR),
        Some(1000 * HOUR),
        Some(due_soon.as_secs() as i64),
    ];
    let begins = begins[random.usize(0..begins.len())];
    let at = |seconds| Timestamp::from_second(host::true_time().as_second() + seconds).ok();
    let maintenance = Maintenance {
        starts_at: begins.and_then(at),
        reason: ["", "new host"][random.usize(0..2)].to_owned(),
        ..Maintenance::default()
    };
    (random.u32(0..4) > 0).then_some(maintenance)
}

/// An announcement whose taint is due in so many seconds.
pub fn due_in(seconds: i64) -> Option<Maintenance> {
    let begins = host::true_time().as_second() + TAINT_BEFORE.as_secs() as i64 + seconds;
    let maintenance = Maintenance {
        starts_at: Timestamp::from_second(begins).ok(),
        reason: "new host".to_owned(),
        ..Maintenance::default()
    };
    Some(maintenance)
}

/// Conditions and taints of `node` once an operator has put up their own, or has taken away what is there.
pub fn marked(node: &Value, puts: bool, now: &str) -> (Vec<Value>, Vec<Value>) {
    let mut conditions = others(&node["status"]["conditions"], "type", CONDITION);
    let mut taints = others(&node["spec"]["taints"], "key", TAINT);
    if puts {
        conditions.push(json!({
            "type": CONDITION, "status": "True", "reason": OPERATOR, "message": "", "lastTransitionTime": now,
        }));
        taints.push(json!({"key": TAINT, "value": OPERATOR, "effect": "PreferNoSchedule"}));
    }
    (conditions, taints)
}

fn others(list: &Value, field: &str, value: &str) -> Vec<Value> {
    let list = list.as_array().into_iter().flatten();
    list.filter(|one| one[field] != value).cloned().collect()
}

/// Condition and taint of `node`, null without.
fn marks(node: &Value) -> (&Value, &Value) {
    let find = |list: &'static str, field: &str, value: &str| {
        let list = node.pointer(list).and_then(Value::as_array);
        let mut list = list.into_iter().flatten();
        list.find(|one| one[field] == value).unwrap_or(&Value::Null)
    };
    (
        find("/status/conditions", "type", CONDITION),
        find("/spec/taints", "key", TAINT),
    )
}

/// A controller has written a Node.
///
/// # Errors
/// The promise that is broken.
pub fn written(before: &Value, after: &Value) -> Result<(), String> {
    let (condition, taint) = marks(before);
    let (condition_after, taint_after) = marks(after);
    if (condition["reason"] == OPERATOR && condition != condition_after)
        || (taint["value"] == OPERATOR && taint != taint_after)
    {
        let name = &after["metadata"]["name"];
        return Err(format!(
            "the operator's marks of maintenance at the Node {name} change"
        ));
    }
    Ok(())
}

/// Differences of `node` from what the cloud announces for its machine.
pub fn complaints(node: &Value, announced: Option<&Maintenance>) -> Vec<String> {
    let name = &node["metadata"]["name"];
    let (condition, taint) = marks(node);
    let mut wrong = Vec::new();
    let message = announced.map(message);
    if condition["reason"] != OPERATOR && condition["message"].as_str() != message.as_deref() {
        wrong.push(format!(
            "the Node {name} has the condition {condition}, and the cloud announces {announced:?}"
        ));
    }
    let starts_at = announced.and_then(|maintenance| maintenance.starts_at);
    let now = host::true_time().as_second();
    let is_due = starts_at.is_some_and(|at| at.as_second() <= now + TAINT_BEFORE.as_secs() as i64);
    if taint["value"] != OPERATOR && is_due == taint.is_null() {
        wrong.push(format!(
            "the Node {name} has the taint {taint}, and the cloud announces {announced:?}"
        ));
    }
    wrong
}

/// The message of the condition.
fn message(maintenance: &Maintenance) -> String {
    let begin = maintenance.starts_at.map(|at| format!(" from {at} on"));
    let reason = Some(&maintenance.reason).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {reason}"));
    format!(
        "the cloud has announced maintenance of the machine{}{}",
        begin.unwrap_or_default(),
        reason.unwrap_or_default()
    )
}
