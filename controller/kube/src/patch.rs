//! Changes of Nodes and volumes as patches with their preconditions.
//!
//! A strategic merge patch of a list loses the entries that another client added meanwhile, unless it names a
//! resourceVersion, and then every heartbeat of the kubelet refuses it. It costs the API server least, so it comes first. A
//! JSON Patch (RFC 6902) follows a refusal: a `test` is refused by just the change that matters, with HTTP 422 without
//! causes, nothing written. Annotations and conditions need neither: each has a key, by which a strategic merge finds it.
//!
//! RBAC: `patch` on `nodes` and `nodes/status`.

use jiff::Timestamp;
use outrigger_core::{
    condition::{Condition, ConditionChange},
    node::{NodeAddress, NodeView, change::NodeChange, effects::EffectsWrite},
};
use serde::Serialize;
use serde_json::{Value, json};

/// The body of a PATCH.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Patch {
    /// RFC 6902, with `test` operations as preconditions.
    Json(Vec<Operation>),
    /// Kubernetes' own, which knows the keys of lists; its `metadata.uid` is the precondition.
    Strategic(Value),
}

impl Patch {
    pub(super) const fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Presumes a value; `null`: that there is none.
    Test {
        /// JSON pointer.
        path: String,
        /// The expected value.
        value: Value,
    },
    /// Writes a value, over whatever is there.
    Add {
        /// JSON pointer.
        path: String,
        /// The new value.
        value: Value,
    },
    /// Removes a value that is there.
    Remove {
        /// JSON pointer.
        path: String,
    },
}

pub(super) fn test(path: impl Into<String>, value: impl Into<Value>) -> Operation {
    Operation::Test {
        path: path.into(),
        value: value.into(),
    }
}

pub(super) fn add(path: impl Into<String>, value: impl Into<Value>) -> Operation {
    Operation::Add {
        path: path.into(),
        value: value.into(),
    }
}

/// The patch of `nodes/<name>` that makes `change` of metadata and spec, planned on `node`. A taint to add is refused by
/// the API server's own rule where one with its key and effect is there.
pub fn node(change: &NodeChange, node: &NodeView) -> Vec<Operation> {
    let mut patch = vec![test("/metadata/uid", &*node.uid)];
    if change.only_this_version {
        patch.push(test("/metadata/resourceVersion", &*node.resource_version));
    }
    // The last one first, so that each index holds when its turn comes.
    for (index, taint) in node.taints.iter().enumerate().rev() {
        if !change.remove_taints.contains(taint) {
            continue;
        }
        let path = format!("/spec/taints/{index}");
        patch.push(test(format!("{path}/key"), &*taint.key));
        // It may say whose taint it is.
        if !taint.value.is_empty() {
            patch.push(test(format!("{path}/value"), &*taint.value));
        }
        patch.push(Operation::Remove { path });
    }
    if let Some(taint) = &change.add_taint {
        if node.taints.is_empty() {
            patch.push(test("/spec/taints", Value::Null));
            patch.push(add("/spec/taints", json!([])));
        }
        patch.push(add("/spec/taints/-", json!(taint)));
    }
    if let Some(provider_id) = &change.provider_id {
        patch.push(test("/spec/providerID", Value::Null));
        patch.push(add("/spec/providerID", &**provider_id));
    }
    let creates_labels = node.labels.is_empty() && !change.labels.is_empty();
    if creates_labels {
        patch.push(test("/metadata/labels", Value::Null));
        patch.push(add("/metadata/labels", json!({})));
    }
    for label in &change.labels {
        let path = format!("/metadata/labels/{}", escape(&label.key));
        if label.must_be_absent && !creates_labels {
            patch.push(test(path.as_str(), Value::Null));
        }
        patch.push(add(path, &*label.value));
    }
    patch
}

/// The patch that makes `change` of `node` as it is under its version, with all of its other taints: their list has no key.
pub fn exact_node(change: &NodeChange, node: &NodeView) -> Value {
    let mut patch = exact(node);
    if !change.remove_taints.is_empty() || change.add_taint.is_some() {
        let taints = change.applied_to(node, "").taints;
        // An empty list would stay, where the API server has none.
        let taints = (!taints.is_empty()).then_some(taints);
        patch["spec"]["taints"] = json!(taints);
    }
    if let Some(provider_id) = &change.provider_id {
        patch["spec"]["providerID"] = json!(provider_id);
    }
    for label in &change.labels {
        patch["metadata"]["labels"][&*label.key] = json!(label.value);
    }
    patch
}

/// The patch of `nodes/<name>/status` that makes the address list `new` of `node` as it is under its version. There is
/// none where addresses of one type stand apart: the API server would put them side by side.
pub fn exact_addresses(node: &NodeView, new: &[NodeAddress]) -> Option<Value> {
    let groups = new.chunk_by(|a, b| a.kind == b.kind);
    let kinds: Vec<_> = groups
        .filter_map(|group| Some(&group.first()?.kind))
        .collect();
    let is_sorted = (1..kinds.len()).all(|at| !kinds[..at].contains(&kinds[at]));
    is_sorted.then(|| {
        let mut patch = exact(node);
        let addresses = new.iter().map(|address| json!(address));
        // Merged by their type, two of one type would be one.
        let addresses = addresses.chain([json!({"$patch": "replace"})]);
        patch["status"]["addresses"] = addresses.collect();
        patch
    })
}

/// The patch of `nodes/<name>` that gives `node`, which has none under its version, its Pod CIDRs.
pub fn exact_pod_cidrs(cidrs: &[Box<str>], node: &NodeView) -> Value {
    let mut patch = exact(node);
    patch["spec"] = json!({"podCIDR": cidrs.first(), "podCIDRs": cidrs});
    patch
}

/// A patch of nothing, for `node` under its version alone.
fn exact(node: &NodeView) -> Value {
    json!({"metadata": {"uid": &*node.uid, "resourceVersion": &*node.resource_version}})
}

/// The patch of `nodes/<name>/status` that makes the address list `new`, where it is `old` now.
pub fn addresses(uid: &str, old: &[NodeAddress], new: &[NodeAddress]) -> Vec<Operation> {
    let presumed = (!old.is_empty()).then_some(old);
    vec![
        test("/metadata/uid", uid),
        test("/status/addresses", json!(presumed)),
        add("/status/addresses", json!(new)),
    ]
}

/// The patch of `nodes/<name>` that sets Pod CIDRs, where there are none: a merge would unite the list
/// with another writer's.
pub fn pod_cidrs(cidrs: &[Box<str>], uid: &str) -> Vec<Operation> {
    let mut patch = vec![
        test("/metadata/uid", uid),
        test("/spec/podCIDRs", Value::Null),
    ];
    if let Some(first) = cidrs.first() {
        patch.push(add("/spec/podCIDR", &**first));
    }
    patch.push(add("/spec/podCIDRs", json!(cidrs)));
    patch
}

/// The patch of `nodes/<name>/status` that makes annotations and conditions, each by its key: those of the kubelet,
/// which come with each heartbeat, are not in its way.
pub fn effects(write: &EffectsWrite, node: &NodeView) -> Value {
    let mut patch = json!({"metadata": {"uid": &*node.uid}});
    if write.only_this_version {
        patch = exact(node);
    }
    if !write.annotations.is_empty() {
        patch["metadata"]["annotations"] = annotations(&write.annotations);
    }
    if !write.conditions.is_empty() {
        let changes = write.conditions.iter().map(|change| {
            let mut condition = condition(change);
            if let ConditionChange::Set(_) = change {
                condition["lastHeartbeatTime"] = time(write.heartbeat).into();
            }
            condition
        });
        patch["status"] = json!({"conditions": changes.collect::<Value>()});
    }
    patch
}

/// `metadata.annotations` of a strategic merge patch: key and value; none removes the key.
pub(super) fn annotations(changes: &[(Box<str>, Option<Box<str>>)]) -> Value {
    let changes = changes.iter();
    changes
        .map(|(key, value)| (key.to_string(), json!(value)))
        .collect()
}

/// An entry of `status.conditions` in a strategic merge patch.
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

/// In whole seconds, as Kubernetes keeps it.
fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

/// A key as one step of a JSON pointer (RFC 6901).
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests;
