//! The form in which kube-apiserver writes an object: what its Go types leave out if it is empty, and what they always
//! write.

use serde_json::{Map, Value, json};

use super::resource::Resource;

/// Maps of text, whose entries stay if they are empty.
const MAPS: [&str; 5] = [
    "labels",
    "annotations",
    "selector",
    "data",
    "volumeAttributes",
];

/// Fields that are left out if they are false.
const FLAGS: [&str; 2] = ["unschedulable", "publishNotReadyAddresses"];

/// Pointers to text: they are written if they are empty.
const POINTERS: [&str; 1] = ["holderIdentity"];

/// Puts `object` into that form.
pub(super) fn apply(resource: &Resource, object: &mut Value) {
    prune(object);
    let Value::Object(fields) = object else {
        return;
    };
    fields.insert("kind".to_owned(), json!(resource.kind));
    fields.insert("apiVersion".to_owned(), json!(resource.api_version()));
    fill(object, &always(resource.kind));
    let condition = match resource.kind {
        "Node" => json!({"lastHeartbeatTime": null, "lastTransitionTime": null}),
        "Service" => json!({"lastTransitionTime": null, "reason": "", "message": ""}),
        _ => return,
    };
    let conditions = object.pointer_mut("/status/conditions");
    for entry in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        fill(entry, &condition);
    }
}

/// The fields that are written even if they are empty.
pub(super) fn always(kind: &str) -> Value {
    match kind {
        "Node" => json!({
            "metadata": {}, "spec": {},
            "status": {
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": "",
                },
            },
        }),
        "Service" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "Event" => json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        }),
        "Lease" => json!({"metadata": {}, "spec": {}}),
        _ => json!({"metadata": {}, "spec": {}, "status": {}}),
    }
}

fn fill(object: &mut Value, defaults: &Value) {
    let (Value::Object(fields), Value::Object(defaults)) = (object, defaults) else {
        return;
    };
    for (key, default) in defaults {
        fill(
            fields.entry(key).or_insert_with(|| default.clone()),
            default,
        );
    }
}

/// Removes empty fields, the inner ones first.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, field| {
                if MAPS.contains(&&**key) && field.is_object() {
                    return !is_empty(field);
                }
                prune(field);
                let is_unset = FLAGS.contains(&&**key) && *field == json!(false);
                let is_kept = POINTERS.contains(&&**key) && field.is_string();
                is_kept || !(is_unset || is_empty(field))
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The text at `pointer`; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer);
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The list at `pointer`; empty if there is none.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let value = object.pointer(pointer).and_then(Value::as_array);
    value.map(Vec::as_slice).unwrap_or_default()
}

/// Sets `field` of the object at `pointer` to that of `from`, or removes it with that.
pub(super) fn copy(from: &Value, to: &mut Value, pointer: &str, field: &str) {
    let value = from
        .pointer(pointer)
        .and_then(|object| object.get(field))
        .cloned();
    if let Some(object) = to.pointer_mut(pointer).and_then(Value::as_object_mut) {
        set(object, field, value);
    }
}

/// Sets `field`, or removes it.
pub(super) fn set(object: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object.insert(field.to_owned(), value),
        None => object.remove(field),
    };
}
