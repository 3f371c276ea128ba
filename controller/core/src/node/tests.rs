use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NodeView, Ready};
use crate::{fixture, string_map::StringMap};

fn view(json: &Value) -> NodeView {
    serde_json::from_str(&json.to_string()).unwrap()
}

#[test]
fn a_real_node_becomes_its_view() {
    let json = fixture::full_node();
    let size = json.to_string().len();
    assert!(
        (12_000..18_000).contains(&size),
        "no realistic node: {size} bytes"
    );

    let node = view(&json);
    assert_eq!(&*node.name, "ip-10-0-0-5.eu-west-1.compute.internal");
    assert_eq!(&*node.uid, "2f3f9a0e-6f62-4b1e-9d2b-0f4a6c1f7d11");
    assert_eq!(&*node.resource_version, "123456");
    assert_eq!(node.created, "2026-11-21T10:00:00Z".parse().unwrap());
    assert_eq!(node.deleted, None);
    assert_eq!(node.labels.len(), 12);
    assert_eq!(node.labels.get("node-role.kubernetes.io/worker"), Some(""));
    assert_eq!(
        &*node.provider_id,
        "example:///eu-west-1a/i-0123456789abcdef0"
    );
    assert_eq!(
        *node.pod_cidrs,
        ["10.1.4.0/24".into(), "fd00:1:4::/64".into()]
    );
    assert!(node.is_uninitialized());
    assert_eq!(&*node.taints[1].effect, "NoExecute");
    assert!(!node.unschedulable);
    assert_eq!(&*node.addresses[0].address, "10.0.0.5");
    assert_eq!(node.ready, Ready::True);
    assert_eq!(
        node.ready_since,
        Some("2026-11-21T10:01:02Z".parse().unwrap())
    );
    assert_eq!(&*node.system_uuid, "ec2a1b2c-3d4e-5f60-7182-93a4b5c6d7e8");
}

#[test]
fn a_system_uuid_that_is_too_long_to_be_one_is_none() {
    let bytes_of = |length: usize| {
        let mut json = fixture::full_node();
        json["status"]["nodeInfo"]["systemUUID"] = "u".repeat(length).into();
        view(&json).system_uuid.len()
    };
    assert_eq!([128, 129].map(bytes_of), [128, 0]);
}

/// The domain tells other components' conditions from Kubernetes' own.
#[test]
fn conditions_with_a_domain_are_kept_by_type() {
    let mut json = fixture::full_node();
    let conditions = json["status"]["conditions"].as_array_mut().unwrap();
    for kind in ["example.com/B", "KernelDeadlock", "example.com/A"] {
        conditions.push(json!({"type": kind, "status": "True", "reason": "R", "message": "m"}));
    }
    let kept = view(&json).conditions;
    let kinds: Vec<_> = kept.iter().map(|condition| &*condition.kind).collect();
    assert_eq!(kinds, ["example.com/A", "example.com/B"]);
    assert_eq!((&*kept[0].reason, &*kept[0].message), ("R", "m"));
}

/// It is as large as the node itself, and providers are not given it either.
#[test]
fn kubectls_copy_of_the_object_is_left_out() {
    let annotations = view(&fixture::full_node()).annotations;
    assert_eq!(annotations.len(), 4);
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
}

/// A map is two allocations: the text, and 8 bytes an entry.
fn map_bytes(map: &StringMap) -> usize {
    let text: usize = map.iter().map(|(k, v)| k.len() + v.len()).sum();
    allocated(text) + allocated(8 * map.len())
}

fn text_bytes(text: &str) -> usize {
    allocated(text.len())
}

/// The allocator's cost of so many bytes.
const fn allocated(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

#[test]
fn a_view_costs_a_fraction_of_the_json() {
    let node = view(&fixture::full_node());
    let texts = [
        &*node.name,
        &node.uid,
        &node.resource_version,
        &node.provider_id,
        &node.system_uuid,
    ];
    let mut bytes = size_of::<NodeView>() + 16;
    bytes += texts.into_iter().map(text_bytes).sum::<usize>();
    bytes += map_bytes(&node.labels) + map_bytes(&node.annotations);
    for taint in &node.taints {
        bytes += size_of_val(taint) + text_bytes(&taint.key) + text_bytes(&taint.value);
        bytes += text_bytes(&taint.effect);
    }
    for address in &node.addresses {
        bytes += size_of_val(address) + text_bytes(&address.kind) + text_bytes(&address.address);
    }
    bytes += node
        .pod_cidrs
        .iter()
        .map(|cidr| 16 + text_bytes(cidr))
        .sum::<usize>();
    assert!(bytes < 2_048, "{bytes}");
}

#[test]
fn missing_parts_and_nulls_are_empty() {
    let bare = view(&json!({"metadata": {"name": "n1"}}));
    for json in [
        json!({"metadata": {"name": "n1"}, "spec": null, "status": null}),
        json!({"metadata": {"name": "n1"}, "spec": {}, "status": {}}),
        json!({
            "metadata": {
                "name": "n1", "uid": null, "resourceVersion": null, "labels": null,
                "annotations": null, "creationTimestamp": null, "deletionTimestamp": null,
            },
            "spec": {"providerID": null, "podCIDRs": null, "taints": null, "unschedulable": null},
            "status": {"addresses": null, "conditions": null, "nodeInfo": {"systemUUID": null}},
        }),
        json!({"metadata": {"name": "n1"}, "status": {"nodeInfo": null}}),
    ] {
        assert_eq!(view(&json), bare, "{json}");
    }
    assert!(!bare.is_uninitialized());
    assert!(bare.labels.is_empty() && bare.addresses.is_empty() && bare.provider_id.is_empty());
}

#[test]
fn fields_of_a_later_kubernetes_are_skipped_except_of_taints_whose_list_is_written() {
    let json = json!({
        "metadata": {"name": "n1", "later": {"a": [1, null, {"b": "c"}]}},
        "spec": {"later": [], "taints": [{"key": "k", "effect": "LaterEffect", "later": 1}]},
        "status": {
            "later": 1.5,
            "addresses": [{"type": "LaterType", "address": "x", "later": null}],
            "conditions": [{"type": "Later"}, {"type": "Ready", "status": "True", "later": {}}],
        },
        "later": "x",
    });
    let node = view(&json);
    let mut taints = fixture::taints("k:LaterEffect");
    taints[0].others.insert("later".to_owned(), json!(1));
    assert_eq!(node.taints, taints);
    let written = json!([{"key": "k", "effect": "LaterEffect", "later": 1}]);
    assert_eq!(serde_json::to_value(&node.taints).unwrap(), written);
    assert_eq!(node.addresses, fixture::addresses("LaterType=x"));
    assert_eq!((node.ready, node.ready_since), (Ready::True, None));
}

#[test]
fn each_field_but_the_name_may_be_null() {
    for (path, json) in fixture::with_each_field_null(&fixture::full_node()) {
        let decoded = serde_json::from_value::<NodeView>(json);
        let is_required = path == "/metadata" || path == "/metadata/name";
        assert_eq!(decoded.is_err(), is_required, "{path}: {decoded:?}");
    }
}

/// Every kubelet may write such times and words about itself, and the API server takes them.
#[test]
fn odd_conditions_are_taken_as_go_takes_them() {
    let late = Some(Timestamp::MAX);
    for (conditions, ready, since) in [
        (
            json!([{"type": "Disk", "lastTransitionTime": "9999-12-31T23:59:59Z"}]),
            Ready::Unknown,
            None,
        ),
        (
            json!([{"type": "Disk", "lastTransitionTime": "no time", "lastHeartbeatTime": 7}]),
            Ready::Unknown,
            None,
        ),
        (
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"}]),
            Ready::True,
            late,
        ),
        (
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "10000-01-01T00:00:00Z"}]),
            Ready::True,
            late,
        ),
        (
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "no time"}]),
            Ready::True,
            None,
        ),
        (
            json!([{"type": "Ready", "status": "False"}, {"type": "Ready", "status": "True"}]),
            Ready::False,
            None,
        ),
        (
            json!([{"type": "Ready", "status": "Soon"}]),
            Ready::Unknown,
            None,
        ),
        (
            json!([{}, {"type": null}, {"type": "Ready", "status": "True"}]),
            Ready::True,
            None,
        ),
    ] {
        let node = view(&json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}}));
        assert_eq!(
            (node.ready, node.ready_since),
            (ready, since),
            "{conditions}"
        );
    }
}

/// The controller must not guess whether a node is being deleted.
#[test]
fn times_of_the_metadata_are_clamped_or_an_error() {
    let with = |time: &str| json!({"metadata": {"name": "n1", "deletionTimestamp": time}});
    let node = view(&with("9999-12-31T23:59:59Z"));
    assert_eq!(node.deleted, Some(Timestamp::MAX));
    let error = serde_json::from_value::<NodeView>(with("soon")).unwrap_err();
    assert!(error.to_string().contains("\"soon\" is no time"), "{error}");
}

/// L-3: no condition counts as Unknown, and so does an unknown value.
#[test]
fn l3_ready_is_unknown_unless_it_says_true_or_false() {
    for (status, ready) in [
        (json!("True"), Ready::True),
        (json!("False"), Ready::False),
        (json!("Unknown"), Ready::Unknown),
        (json!("true"), Ready::Unknown),
        (json!(""), Ready::Unknown),
        (json!(null), Ready::Unknown),
    ] {
        let conditions =
            json!([{"type": "Other", "status": "True"}, {"type": "Ready", "status": status}]);
        let json = json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}});
        assert_eq!(view(&json).ready, ready, "{status}");
    }
    assert_eq!(
        view(&json!({"metadata": {"name": "n1"}})).ready,
        Ready::Unknown
    );
}

#[test]
fn a_node_without_a_name_is_an_error() {
    for json in [
        r#"{"metadata": {}}"#,
        "{}",
        "null",
        r#"{"metadata": {"name": 7}}"#,
    ] {
        assert!(serde_json::from_str::<NodeView>(json).is_err(), "{json}");
    }
}

/// N-10: neither value nor effect of the taint matters.
#[test]
fn n10_the_taint_is_known_by_its_key_alone() {
    for (taints, expected) in [
        ("cloud:NoSchedule", true),
        ("cloud:NoExecute", true),
        ("dedicated:NoSchedule cloud:", true),
        ("dedicated:NoSchedule", false),
        (
            "node.cloudprovider.kubernetes.io/shutdown:NoSchedule",
            false,
        ),
        ("", false),
    ] {
        let node = NodeView {
            taints: fixture::taints(taints),
            ..fixture::registered("n1")
        };
        assert_eq!(node.is_uninitialized(), expected, "{taints}");
    }
}

/// L-3, L-12: key and effect, whatever the value.
#[test]
fn l12_the_taint_of_a_stopped_instance_is_known_by_key_and_effect() {
    let key = "node.cloudprovider.kubernetes.io/shutdown";
    for (effect, expected) in [("NoSchedule", true), ("NoExecute", false), ("", false)] {
        let mut taints = fixture::taints(&format!("dedicated:NoSchedule {key}:{effect}"));
        taints[1].value = "whatever".into();
        let node = NodeView {
            taints,
            ..fixture::registered("n1")
        };
        assert_eq!(node.is_shut_down(), expected, "{effect}");
    }
}

#[test]
fn labels_say_true_and_nothing_else() {
    for (value, expected) in [("true", true), ("True", false), ("1", false), ("", false)] {
        let with = |key| NodeView {
            labels: fixture::map(&[(key, value)]),
            ..fixture::registered("n1")
        };
        let (paused, confirmed) = (
            with("outrigger.dev.node-restriction.kubernetes.io/paused"),
            with("outrigger.dev.node-restriction.kubernetes.io/confirm-deletion"),
        );
        assert_eq!(paused.is_paused(), expected, "{value}");
        assert_eq!(confirmed.is_deletion_confirmed(), expected, "{value}");
        assert!(!paused.is_deletion_confirmed() && !confirmed.is_paused());
    }
}

/// The autoscaler's taint says when it was added.
#[test]
fn an_end_is_announced_by_a_deletion_and_by_a_taint_that_is_older_than_the_silence() {
    let silent = |taint: &str| NodeView {
        taints: fixture::taints(taint),
        ready: Ready::Unknown,
        ready_since: Some(Timestamp::from_second(1_000).unwrap()),
        ..fixture::registered("n1")
    };
    for (value, announced) in [
        ("=999", true),
        ("=1000", true),
        ("=1001", false),
        ("", false),
        ("=x", false),
    ] {
        let node = silent(&format!("ToBeDeletedByClusterAutoscaler{value}:NoSchedule"));
        assert_eq!(node.is_end_announced(), announced, "{value}");
        let ready = NodeView {
            ready: Ready::True,
            ..node
        };
        assert!(ready.is_end_announced(), "{value}");
    }
    let other = silent("DeletionCandidateOfClusterAutoscaler=999:PreferNoSchedule");
    assert!(!other.is_end_announced());
    let deleting = NodeView {
        deleted: Some(Timestamp::UNIX_EPOCH),
        ..other
    };
    assert!(deleting.is_end_announced());
}

/// The scheduler's and attach-detach controller's word, of which only this is kept.
#[test]
fn volumes_in_use_are_seen() {
    for (volumes, expected) in [
        (json!(["kubernetes.io/csi/x^1"]), true),
        (json!([]), false),
        (json!(null), false),
    ] {
        let mut node = fixture::full_node();
        node["status"]["volumesInUse"] = volumes;
        assert_eq!(view(&node).has_volumes_in_use, expected);
    }
}
