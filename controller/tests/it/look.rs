//! Readable forms of an object, an event or a request.

pub(crate) mod services;

use k8s_openapi::api::core::v1::{Event, Node};
use kube::Resource;
use outrigger_testbed::{
    faults::{Outcome, Recorded},
    nodes::UNINITIALIZED_TAINT,
};

pub(crate) fn is_tainted(node: &Node) -> bool {
    taints(node)
        .iter()
        .any(|taint| taint.starts_with(UNINITIALIZED_TAINT))
}

/// `key=value:effect`, in order, except the one that the API server puts on each new node.
pub(crate) fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    taints
        .filter(|taint| taint.key != "node.kubernetes.io/not-ready")
        .map(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            format!("{}={value}:{}", taint.key, taint.effect)
        })
        .collect()
}

pub(crate) fn provider_id(node: &Node) -> Option<&str> {
    node.spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref())
}

pub(crate) fn label<'a>(object: &'a impl Resource, key: &str) -> Option<&'a str> {
    let labels = object.meta().labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

/// `Type=address`, in order.
pub(crate) fn addresses(node: &Node) -> Vec<String> {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    addresses
        .map(|address| format!("{}={}", address.type_, address.address))
        .collect()
}

pub(crate) fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap()
}

pub(crate) fn reason(event: &Event) -> &str {
    event.reason.as_deref().unwrap_or_default()
}

pub(crate) fn answered(request: &Recorded, code: u16) -> bool {
    matches!(request.outcome, Outcome::Answered(status) if status.as_u16() == code)
}

/// A write in a few words.
pub(crate) fn written(request: &Recorded) -> String {
    let body = request.json();
    let object = &body["involvedObject"]["name"];
    match (body["reason"].as_str(), object.as_str()) {
        (Some(reason), Some(object)) => format!("{} {reason} {object}", request.method),
        _ => format!("{} {}", request.method, request.path),
    }
}
