use outrigger_core::{
    condition::Condition,
    node::{Taint, change::LabelWrite},
    volume::{NodeRequirement, NodeTerm, VolumePatch},
};
use serde_json::json;

use super::*;
use crate::{nodes::Write, volumes::operations, writer::ObjectWrite};

/// A Node with this spec.
fn view(spec: &Value) -> NodeView {
    let metadata = json!({"name": "n", "uid": "u", "resourceVersion": "7", "labels": {"own": "x"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn a_node_change_names_what_it_presumes() {
    let taints = json!([
        {"key": "k", "effect": "NoSchedule"},
        {"key": "other", "effect": "NoSchedule"},
        {"key": "k", "value": "v", "effect": "NoSchedule"},
    ]);
    let object = view(&json!({"taints": taints}));
    let change = NodeChange {
        remove_taints: vec![object.taints[0].clone(), object.taints[2].clone()],
        provider_id: Some("mock://1".into()),
        labels: vec![
            LabelWrite {
                key: "a/b~c".into(),
                value: "1".into(),
                must_be_absent: true,
            },
            LabelWrite {
                key: "d".into(),
                value: "2".into(),
                must_be_absent: false,
            },
        ],
        ..NodeChange::default()
    };
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/taints/2/key", "value": "k"},
        {"op": "test", "path": "/spec/taints/2/value", "value": "v"},
        {"op": "remove", "path": "/spec/taints/2"},
        {"op": "test", "path": "/spec/taints/0/key", "value": "k"},
        {"op": "remove", "path": "/spec/taints/0"},
        {"op": "test", "path": "/spec/providerID", "value": null},
        {"op": "add", "path": "/spec/providerID", "value": "mock://1"},
        {"op": "test", "path": "/metadata/labels/a~1b~0c", "value": null},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "1"},
        {"op": "add", "path": "/metadata/labels/d", "value": "2"},
    ]);
    assert_eq!(
        serde_json::to_value(node(&change, &object)).unwrap(),
        expected
    );
}

#[test]
fn a_taint_that_would_do_harm_to_a_changed_node_names_its_version() {
    let change = NodeChange {
        add_taint: Some(Taint::new("k", "v", "NoExecute")),
        only_this_version: true,
        ..NodeChange::default()
    };
    let object = view(&json!({"taints": [{"key": "other", "effect": "NoExecute"}]}));
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "k", "value": "v", "effect": "NoExecute"}},
    ]);
    assert_eq!(
        serde_json::to_value(node(&change, &object)).unwrap(),
        expected
    );
    // A list is made first where there is none.
    let patch = serde_json::to_value(node(&change, &view(&json!({})))).unwrap();
    assert_eq!(
        patch[3],
        json!({"op": "add", "path": "/spec/taints", "value": []})
    );
}

/// I-14.
#[test]
fn pod_cidrs_are_written_only_where_there_are_none() {
    let cidrs = ["10.0.1.0/24".into(), "fd00:1::/64".into()];
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/podCIDRs", "value": null},
        {"op": "add", "path": "/spec/podCIDR", "value": "10.0.1.0/24"},
        {"op": "add", "path": "/spec/podCIDRs", "value": ["10.0.1.0/24", "fd00:1::/64"]},
    ]);
    assert_eq!(
        serde_json::to_value(pod_cidrs(&cidrs, "u")).unwrap(),
        expected
    );
    let mut view: NodeView = serde_json::from_value(
        json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}}),
    )
    .unwrap();
    let exact = json!({
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24", "fd00:1::/64"]},
    });
    assert_eq!(exact_pod_cidrs(&cidrs, &view), exact);
    let write = Write::PodCidrs(cidrs.into());
    assert!(write.exact_patch(&view).is_some());
    view.pod_cidrs = ["10.0.2.0/24".into()].into();
    assert!(write.exact_patch(&view).is_none());
}

#[test]
fn labels_are_made_before_a_first_label() {
    let change = NodeChange {
        labels: vec![LabelWrite {
            key: "d".into(),
            value: "2".into(),
            must_be_absent: true,
        }],
        ..NodeChange::default()
    };
    let object = NodeView {
        labels: [("", ""); 0].into_iter().collect(),
        ..view(&json!({}))
    };
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/labels", "value": null},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/d", "value": "2"},
    ]);
    assert_eq!(
        serde_json::to_value(node(&change, &object)).unwrap(),
        expected
    );
}

#[test]
fn addresses_presume_the_old_list() {
    let address = |ip: &str| NodeAddress {
        kind: "InternalIP".into(),
        address: ip.into(),
    };
    let patch = addresses("u", &[], &[address("10.0.0.1")]);
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/status/addresses", "value": null},
        {"op": "add", "path": "/status/addresses",
         "value": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    ]);
    assert_eq!(serde_json::to_value(patch).unwrap(), expected);
    let patch = addresses("u", &[address("10.0.0.1")], &[address("10.0.0.2")]);
    let presumed = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    assert_eq!(patch[1], test("/status/addresses", presumed));
}

/// Two of one type with another one between them would come out side by side.
#[test]
fn an_address_list_is_replaced_only_in_an_order_that_the_api_server_keeps() {
    let view: NodeView = serde_json::from_value(
        json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}}),
    )
    .unwrap();
    let exact = |kinds: &[&str]| {
        let addresses = kinds.iter().map(|kind| NodeAddress {
            kind: (*kind).into(),
            address: "x".into(),
        });
        exact_addresses(&view, &addresses.collect::<Vec<_>>())
    };
    assert_eq!(
        exact(&["A", "B"]),
        Some(json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "status": {"addresses": [
                {"type": "A", "address": "x"}, {"type": "B", "address": "x"}, {"$patch": "replace"},
            ]},
        }))
    );
    for kinds in [&[][..], &["A"], &["A", "A", "B", "B", "C"]] {
        assert!(exact(kinds).is_some(), "{kinds:?}");
    }
    for kinds in [&["A", "B", "A"][..], &["A", "B", "C", "B"]] {
        assert!(exact(kinds).is_none(), "{kinds:?}");
    }
}

///
#[test]
fn effects_name_each_annotation_and_condition_by_its_key() {
    let at = |text: &str| text.parse().unwrap();
    let condition = Condition {
        kind: "x/A".into(),
        status: "True".into(),
        reason: "R".into(),
        message: "m".into(),
        last_transition_time: Some(at("2026-01-01T00:00:00Z")),
    };
    let write = EffectsWrite {
        annotations: vec![("x/a".into(), Some("1".into())), ("x/b".into(), None)],
        conditions: vec![
            ConditionChange::Set(condition),
            ConditionChange::Remove("x/B".into()),
        ],
        heartbeat: at("2026-01-02T03:04:05.678Z"),
        only_this_version: false,
    };
    let object = view(&json!({}));
    let expected = json!({
        "metadata": {"uid": "u", "annotations": {"x/a": "1", "x/b": null}},
        "status": {"conditions": [
            {
                "type": "x/A", "status": "True", "reason": "R", "message": "m",
                "lastHeartbeatTime": "2026-01-02T03:04:05Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
            {"type": "x/B", "$patch": "delete"},
        ]},
    });
    assert_eq!(effects(&write, &object), expected);
    let none = EffectsWrite {
        only_this_version: true,
        annotations: Vec::new(),
        conditions: Vec::new(),
        ..write
    };
    let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
    assert_eq!(effects(&none, &object), expected);
}

/// P-25, P-30.
#[test]
fn a_label_of_a_volume_is_written_only_where_there_is_none() {
    let view = |metadata: Value| serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let terms = [NodeTerm {
        match_expressions: vec![NodeRequirement::within("z", vec!["a".into()])],
        ..NodeTerm::default()
    }];
    let write = VolumePatch {
        labels: vec![("x/z".into(), "a".into())],
        labelled: Some("mark".into()),
        node_terms: Some(terms.into()),
        missing: None,
    };
    let affinity = json!({"op": "add", "path": "/spec/nodeAffinity", "value": {
        "required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]},
        ]},
    }});
    let mark = json!({
        "op": "add", "path": "/metadata/annotations/outrigger.dev~1volume-labelled", "value": "mark",
    });
    let label = json!({"op": "add", "path": "/metadata/labels/x~1z", "value": "a"});

    // A volume that exists: an older mark is replaced, another client's label refuses all of it.
    let existing = view(json!({
        "uid": "u", "labels": {"app": "db"}, "annotations": {"outrigger.dev/volume-labelled": "old"},
    }));
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/labels/x~1z", "value": null},
        label,
        mark,
        affinity,
    ]);
    let patch = operations(&existing, &write);
    assert_eq!(serde_json::to_value(patch).unwrap(), expected);

    // A volume that is being created, without any label or annotation, nor a UID.
    let expected = json!([
        {"op": "test", "path": "/metadata/labels", "value": null},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        label,
        {"op": "test", "path": "/metadata/annotations", "value": null},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        mark,
        affinity,
    ]);
    let patch = operations(&view(json!({"name": "pv"})), &write);
    assert_eq!(serde_json::to_value(patch).unwrap(), expected);

    // P-32: nothing but the mark; an annotation that is not read here is one all the same.
    let annotated = view(json!({"uid": "u", "annotations": {"theirs": "1"}}));
    let only_marked = VolumePatch {
        labelled: write.labelled.clone(),
        ..VolumePatch::default()
    };
    let expected = json!([{"op": "test", "path": "/metadata/uid", "value": "u"}, mark]);
    let patch = operations(&annotated, &only_marked);
    assert_eq!(serde_json::to_value(patch).unwrap(), expected);
}
