//! The rules of each kind for a write: what is kept, what is set, and what is refused.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    resource::{CERTIFICATE_REQUEST, Target},
    service,
    shape::{copy, list, text},
    status::Cause,
};

/// Fields that only the server sets.
const SYSTEM_FIELDS: [&str; 4] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// Fills in what decoding does.
pub(super) fn defaults(kind: &str, object: &mut Value) {
    match kind {
        "Node" => keep_pod_cidrs_in_step(object),
        "Service" => service::defaults(object),
        "PersistentVolume" => {
            for (field, default) in [
                ("persistentVolumeReclaimPolicy", "Retain"),
                ("volumeMode", "Filesystem"),
            ] {
                let field = &mut object["spec"][field];
                if field.is_null() {
                    *field = json!(default);
                }
            }
        }
        _ => {}
    }
}

/// Fills a new object in.
pub(super) fn prepare_new(kind: &str, object: &mut Value, now: Timestamp) {
    match kind {
        "Node" => {
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            if let Some(spec) = object["spec"].as_object_mut() {
                let taints = spec.entry("taints").or_insert_with(|| json!([]));
                let taints = taints.as_array_mut();
                if let Some(taints) = taints.filter(|taints| !taints.contains(&taint)) {
                    taints.push(taint);
                }
            }
        }
        "Service" => object["status"] = json!({"loadBalancer": {}}),
        "PersistentVolume" => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": seconds(now)});
        }
        CERTIFICATE_REQUEST => object["status"] = json!({}),
        _ => {}
    }
}

/// Keeps of `old` what a write of `target` cannot change, and fills the rest in.
pub(super) fn prepare(target: &Target, new: &mut Value, old: &Value, now: Timestamp) {
    for field in SYSTEM_FIELDS {
        copy(old, new, "/metadata", field);
    }
    if target.resource.of_status().is_some() {
        let kept = if target.is_status { "spec" } else { "status" };
        copy(old, new, "", kept);
    }
    if target.resource.kind == "Service" && !target.is_status {
        service::drop_what_the_type_has_not(new, old);
    }
    if target.resource.kind == CERTIFICATE_REQUEST {
        copy(old, new, "", "spec");
        copy(old, new, "/status", "certificate");
        let conditions = new.pointer_mut("/status/conditions");
        let conditions = conditions.and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            for field in ["lastUpdateTime", "lastTransitionTime"] {
                let time = &mut condition[field];
                if time.is_null() {
                    *time = json!(seconds(now));
                }
            }
        }
    }
}

/// In whole seconds, as Kubernetes writes it.
pub(super) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The older field has the first of the newer one; if they differ it wins.
fn keep_pod_cidrs_in_step(node: &mut Value) {
    let first = text(node, "/spec/podCIDR").to_owned();
    let all = list(node, "/spec/podCIDRs").first().cloned();
    match (&*first, all) {
        ("", Some(all)) => node["spec"]["podCIDR"] = all,
        (first, all) if !first.is_empty() && all != Some(json!(first)) => {
            node["spec"]["podCIDRs"] = json!([first]);
        }
        _ => {}
    }
}

/// The faults of `new`, which replaces `old`.
pub(super) fn causes(target: &Target, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(old) = old {
        metadata(&mut causes, new, old);
    }
    labels(&mut causes, new);
    match target.resource.kind {
        "Node" => node(&mut causes, new, old),
        "Service" if target.is_status => service::check_status(&mut causes, new),
        "Service" => service::check(&mut causes, new, old),
        "Lease" => lease(&mut causes, new),
        "Event" => {
            let of = text(new, "/involvedObject/namespace");
            let is_right = if of.is_empty() { "default" } else { of } == target.namespace;
            if !is_right {
                let why = "does not match event.namespace";
                causes.push(Cause::invalid("involvedObject.namespace", &json!(of), why));
            }
        }
        "PersistentVolume" => {
            let affinity = |volume: &Value| volume["spec"]["nodeAffinity"].clone();
            let set = old.map(affinity).filter(|affinity| !affinity.is_null());
            if set.is_some_and(|set| set != affinity(new)) {
                let why = "field is immutable, except for updating from beta label to GA";
                causes.push(Cause::invalid("nodeAffinity", &affinity(new), why));
            }
        }
        _ => {}
    }
    causes
}

fn metadata(causes: &mut Vec<Cause>, new: &Value, old: &Value) {
    let finalizers = |object| list(object, "/metadata/finalizers");
    let is_deleted = !text(old, "/metadata/deletionTimestamp").is_empty();
    let before = finalizers(old);
    let added = finalizers(new).iter().filter(|name| !before.contains(name));
    let added: Vec<_> = added.map(ToString::to_string).collect();
    if is_deleted && !added.is_empty() {
        let added = added.join(", ");
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{added}}}"
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    if uid(new) != uid(old) {
        causes.push(Cause::invalid(
            "metadata.uid",
            &uid(new),
            "field is immutable",
        ));
    }
}

const WORD: &str = "'-', '_' or '.', and must start and end with an alphanumeric character";

fn labels(causes: &mut Vec<Cause>, object: &Value) {
    let labels = object["metadata"]["labels"].as_object();
    for (key, value) in labels.into_iter().flatten() {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, &**key),
        };
        if !is_word(name) || prefix.is_some_and(str::is_empty) {
            let why = format!(
                "a valid label key must consist of alphanumeric characters, {WORD} (e.g. 'MyName',  or 'my.name',  \
                 or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
                 optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
            causes.push(Cause::invalid("metadata.labels", &json!(key), &why));
        }
        let text = value.as_str().unwrap_or_default();
        if !text.is_empty() && !is_word(text) {
            let why = format!(
                "a valid label must be an empty string or consist of alphanumeric characters, {WORD} (e.g. \
                 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            );
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
}

fn is_word(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63
        && text.chars().all(is_inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn node(causes: &mut Vec<Cause>, new: &Value, old: Option<&Value>) {
    let taints = list(new, "/spec/taints");
    for (at, taint) in taints.iter().enumerate() {
        let same =
            |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if taints.iter().take(at).any(same) {
            let value = format!(
                "{{\"Key\":{},\"Value\":{:?},\"Effect\":{},\"TimeAdded\":null}}",
                taint["key"],
                text(taint, "/value"),
                taint["effect"],
            );
            let message =
                format!("Duplicate value: {value}: taints must be unique by key and effect pair");
            causes.push(Cause::new(
                format!("metadata.taints[{at}]"),
                "FieldValueDuplicate",
                message,
            ));
        }
    }
    let addresses = list(new, "/status/addresses");
    for (at, address) in addresses.iter().enumerate() {
        if old.is_some() && addresses.iter().take(at).any(|other| other == address) {
            let (kind, value) = (&address["type"], &address["address"]);
            let message = format!("Duplicate value: {{\"Type\":{kind},\"Address\":{value}}}");
            causes.push(Cause::new(
                format!("status.addresses[{at}]"),
                "FieldValueDuplicate",
                message,
            ));
        }
    }
    let Some(old) = old else {
        return;
    };
    for (field, what) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let of = |object: &Value| object["spec"][field].clone();
        if !of(old).is_null() && of(new) != of(old) {
            let why = format!("node updates may not change {what} except from \"\" to valid");
            causes.push(Cause::forbidden(format!("spec.{field}"), &why));
        }
    }
}

fn lease(causes: &mut Vec<Cause>, new: &Value) {
    for (field, least, why) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        let value = &new["spec"][field];
        if value.as_i64().is_some_and(|value| value < least) {
            causes.push(Cause::invalid(format!("spec.{field}"), value, why));
        }
    }
}
