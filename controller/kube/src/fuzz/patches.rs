//! A patch changes what it is for and nothing else, and the view after it is that of the object after it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_core::{
    condition::{Condition, ConditionChange, Status},
    effects::{DesiredCondition, Effects},
    forbidden_addresses::ForbiddenAddresses,
    node::{
        NodeView,
        answer::{RawInstance, Rules},
        change::NodeChange,
        effects,
        ownership::Prefixes,
        plan::{Policy, plan},
    },
    service::{
        FINALIZER, Ingress, PortStatus, ServiceView,
        patch_plan::{FinalizerChange, StatusPatch},
    },
    volume::{NodeRequirement, NodeTerm, VolumePatch, VolumeView},
};
use outrigger_runtime::fixture::near::{self, Edit};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{edits, node, service, volume};
use crate::{
    fixture::{merge::merged, nodes::patched},
    nodes::Write,
    patch::Patch,
    volumes::operations,
    writer::ObjectWrite,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            "a",
            "x/a",
            "x/b~c",
            "x/y~z",
            "10.0.0.1",
            "fd00::1",
            "kubernetes.io/hostname",
            "é\"\\\n"
        ])
        .prop_map(str::to_owned),
        "[a-z0-9/~.\" -]{0,12}",
    ]
}

fn at() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// The object in the form that the API server writes: without fields that are null or empty.
fn as_written(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, field)| (key, as_written(field)));
            fields.filter(|(_, field)| !is_empty(field)).collect()
        }
        Value::Array(items) => items.into_iter().map(as_written).collect(),
        value => value,
    }
}

/// An object near to `seed`, with the parts that the API server always has.
fn near_to(seed: &Value, edits: &[Edit]) -> Value {
    let mut object = as_written(near::value(seed, edits));
    if !object.is_object() {
        object = json!({});
    }
    for part in ["metadata", "spec", "status"] {
        if !object[part].is_object() {
            object[part] = json!({});
        }
    }
    object["metadata"]["uid"] = json!("u");
    object
}

/// The object after `patch`; none: a precondition does not hold.
fn after(object: &Value, patch: &Patch) -> Option<Value> {
    let patch = serde_json::to_value(patch).unwrap();
    match patch.as_array() {
        Some(operations) => {
            let rfc: Result<json_patch::Patch, _> = serde_json::from_value(patch.clone());
            rfc.unwrap();
            patched(object, operations)
        }
        None => Some(merged(object, &patch).unwrap()),
    }
}

/// `object` without the values at `paths`.
fn without(object: &Value, paths: &[&str]) -> Value {
    let mut object = object.clone();
    for path in paths {
        let (parent, key) = path.rsplit_once('/').unwrap();
        if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
            parent.remove(key);
        }
    }
    as_written(object)
}

/// Writes to a Node near to a real one, and looks at what it becomes.
fn check_node(node: &Value, write: &Write, paths: &[&str]) {
    let view: NodeView = serde_json::from_value(node.clone()).unwrap();
    let patches = [Some(write.patch(&view, &view)), write.exact_patch(&view)];
    for patch in patches.into_iter().flatten() {
        check_patch(node, &view, write, &patch, paths);
    }
}

fn check_patch(node: &Value, view: &NodeView, write: &Write, patch: &Patch, paths: &[&str]) {
    let new = after(node, patch).unwrap_or_else(|| panic!("refused: {patch:?} of {node}"));
    assert_eq!(without(&new, paths), without(node, paths), "{patch:?}");
    let read: NodeView = serde_json::from_value(new).unwrap();
    let expected = write.applied_to(view, &view.resource_version);
    assert_eq!(read, expected, "{patch:?}");
}

prop_compose! {
    fn any_instance()(
        id in text(), kind in text(), zone in text(), region in text(),
        addresses in vec((select(vec!["InternalIP", "Hostname", "ExternalDNS", "Odd"]), text()), 0..3),
        labels in vec((text(), text()), 0..3),
    ) -> RawInstance {
        RawInstance {
            provider_id: if id.is_empty() { id } else { format!("p://{id}") },
            instance_type: kind,
            zone,
            region,
            addresses: addresses.into_iter().map(|(kind, address)| (kind.to_owned(), address)).collect(),
            additional_labels: labels,
            ..RawInstance::default()
        }
    }
}

fn any_changes() -> impl Strategy<Value = Vec<(Box<str>, Option<Box<str>>)>> {
    prop::collection::btree_map(text(), option::of(text()), 0..4).prop_map(|changes| {
        let changes = changes.into_iter();
        changes
            .map(|(key, value)| (key.into(), value.map(Into::into)))
            .collect()
    })
}

fn any_condition_changes() -> impl Strategy<Value = Vec<ConditionChange>> {
    let kinds = select(vec!["x/Old", "x/New", "y/Other"]);
    prop::collection::btree_map(kinds, option::of(text()), 0..3).prop_map(|changes| {
        let changes = changes.into_iter();
        changes
            .map(|(kind, message)| match message {
                Some(message) => ConditionChange::Set(Condition {
                    kind: kind.into(),
                    status: "True".into(),
                    reason: "R".into(),
                    message: message.into(),
                    last_transition_time: Some(at()),
                }),
                None => ConditionChange::Remove(kind.into()),
            })
            .collect()
    })
}

prop_compose! {
    fn any_ingress()(ip in text(), hostname in text(), mode in option::of(text()), port in any::<i32>(), error in option::of(text()))
        -> Ingress
    {
        let ip = if ip.parse::<std::net::IpAddr>().is_ok() { ip } else { String::new() };
        let port = PortStatus { port, protocol: "TCP".into(), error: error.map(Into::into) };
        let ip_mode = if ip.is_empty() { None } else { mode.map(Into::into) };
        Ingress { ip: ip.into(), hostname: hostname.into(), ip_mode, ports: [port].into() }
    }
}

proptest! {
    #[test]
    fn of_a_node(edits in edits(), raw in any_instance(), cidrs in vec(text(), 1..3)) {
        let node = near_to(&node(), &edits);
        let Ok(view) = serde_json::from_value::<NodeView>(node.clone()) else {
            return Ok(());
        };
        if let Some(change) = NodeChange::add_shutdown_taint(&view) {
            check_node(&node, &Write::Node(change), &["/spec/taints"]);
        }
        if view.pod_cidrs.is_empty() {
            let cidrs = cidrs.into_iter().map(Into::into).collect();
            let write = Write::PodCidrs(cidrs);
            check_node(&node, &write, &["/spec/podCIDR", "/spec/podCIDRs"]);
        }
        let prefixes = Prefixes::new("p", [] as [&str; 0]).unwrap();
        let forbidden = ForbiddenAddresses::new([]);
        let rules = Rules { prefixes: &prefixes, empty_provider_id: true, forbidden: &forbidden };
        let Ok(instance) = raw.check(rules) else {
            return Ok(());
        };
        let policy = Policy { without_provider_id: true, ..Policy::default() };
        let Ok(plan) = plan(&view, &instance, &policy) else {
            return Ok(());
        };
        if let Some(change) = plan.change {
            let paths = ["/spec/taints", "/spec/providerID", "/metadata/labels"];
            check_node(&node, &Write::Node(change), &paths);
        }
        if let Some(addresses) = plan.addresses {
            let write = Write::Addresses(addresses);
            if let Some(patch) = write.exact_patch(&view) {
                check_patch(&node, &view, &write, &patch, &["/status/addresses"]);
            }
        }
    }

    #[test]
    fn of_a_nodes_effects(edits in edits(), annotations in any_changes(), messages in vec(option::of(text()), 2)) {
        let mut node = near_to(&node(), &edits);
        // One of each type, as the API server keeps them.
        node["status"]["conditions"] = super::node()["status"]["conditions"].clone();
        let Ok(view) = serde_json::from_value::<NodeView>(node.clone()) else {
            return Ok(());
        };
        let conditions = ["x/Old", "x/New"].into_iter().zip(messages).map(|(kind, message)| {
            let desired = message.map(|message| DesiredCondition {
                status: Status::True, reason: "R".into(), message: message.into(),
            });
            (kind.into(), desired)
        });
        let desired = Effects { annotations, conditions: conditions.collect(), ..Effects::default() };
        let Some(write) = effects::plan(at(), &view, &desired) else {
            return Ok(());
        };
        let write = Write::Effects(write);
        check_node(&node, &write, &["/metadata/annotations", "/status/conditions"]);
        // The conditions of other writers are as they were.
        let new = after(&node, &write.patch(&view, &view)).unwrap();
        let ready = |node: &Value| {
            let all = node["status"]["conditions"].as_array().unwrap().iter();
            all.filter(|condition| condition["type"] == "Ready").cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(ready(&new), ready(&node));
    }

    #[test]
    fn of_a_service(
        finalizers in prop::sample::subsequence(vec!["a/b", FINALIZER, "c/d"], 0..=3),
        kinds in prop::sample::subsequence(vec!["y/Other", "x/Old"], 0..=2),
        finalizer in select(vec![None, Some(FinalizerChange::Add), Some(FinalizerChange::Remove)]),
        annotations in any_changes(),
        conditions in any_condition_changes(),
        ingress in option::of(vec(any_ingress(), 0..3)),
    ) {
        let mut newest = service();
        newest["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        newest["metadata"]["finalizers"] = json!(finalizers);
        let condition = |kind: &&str| json!({"type": kind, "status": "True", "reason": "R", "message": ""});
        newest["status"]["conditions"] = kinds.iter().map(condition).collect();
        let view: ServiceView = serde_json::from_value(newest.clone()).unwrap();
        let patch = StatusPatch {
            uid: "u".into(), finalizer, annotations, conditions, ingress: ingress.map(Into::into),
        };
        let sent = serde_json::to_value(patch.patch(&view, &view)).unwrap();
        prop_assert_eq!(&sent["metadata"]["uid"], "u");
        let new = merged(&newest, &sent).unwrap();
        let paths = ["/metadata/finalizers", "/metadata/annotations", "/status/conditions", "/status/loadBalancer"];
        prop_assert_eq!(without(&new, &paths), without(&newest, &paths));
        let read: ServiceView = serde_json::from_value(new).unwrap();
        prop_assert_eq!(read, patch.applied_to(&view, "7"));
    }

    #[test]
    fn of_a_volume(
        edits in edits(),
        labels in prop::collection::btree_map("[a-z]{1,3}(/[a-z~]{1,3})?", text(), 0..4),
        labelled in option::of(text()),
        values in option::of(vec(text(), 0..3)),
    ) {
        let volume = near_to(&volume(), &edits);
        let Ok(view) = serde_json::from_value::<VolumeView>(volume.clone()) else {
            return Ok(());
        };
        // A plan names no label that is there.
        let labels: BTreeMap<_, _> = labels.into_iter().filter(|(key, _)| !view.labels.contains_key(key)).collect();
        let term = |values: Vec<String>| NodeTerm {
            match_expressions: vec![NodeRequirement::within("z", values.into_iter().map(Into::into).collect())],
            ..NodeTerm::default()
        };
        let write = VolumePatch {
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            labelled: labelled.map(Into::into),
            node_terms: values.map(|values| [term(values)].into()),
            missing: None,
        };
        let patch = Patch::Json(operations(&view, &write));
        let new = after(&volume, &patch).unwrap_or_else(|| panic!("refused: {patch:?} of {volume}"));
        let paths = ["/metadata/labels", "/metadata/annotations", "/spec/nodeAffinity"];
        prop_assert_eq!(without(&new, &paths), without(&volume, &paths));
        let read: VolumeView = serde_json::from_value(new).unwrap();
        prop_assert_eq!(read, write.applied_to(&view, &view.resource_version));
    }
}
