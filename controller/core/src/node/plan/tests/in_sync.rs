//! Nodes that are initialised.

use proptest::prelude::*;

use super::{NodeChange, NodePlan, NodeView, NodeWarning, Policy, write};
use crate::{
    fixture::{addresses, any_instance, any_node, map, registered, taints, written},
    node::{
        instance::Instance,
        labels::{self, is_reserved},
        plan::plan,
    },
};

/// An initialised node and its machine, in sync.
fn in_sync() -> (NodeView, Instance) {
    let node = NodeView {
        taints: taints("dedicated:NoSchedule"),
        provider_id: "mock://i-1".into(),
        labels: map(&[
            (labels::ZONE, "z1"),
            (labels::INSTANCE_TYPE, "large"),
            ("example.com/rack", "7"),
        ]),
        ..registered("n6")
    };
    let instance = Instance {
        provider_id: "mock://i-1".into(),
        zone: "z1".into(),
        instance_type: "large".into(),
        addresses: addresses("InternalIP=10.0.0.5"),
        additional_labels: map(&[("example.com/rack", "7")]),
        ..Instance::default()
    };
    (node, instance)
}

fn managing(keys: &[&str]) -> Policy {
    Policy {
        managed_label_keys: keys.iter().map(|key| (*key).into()).collect(),
        ..Policy::default()
    }
}

fn planned(node: &NodeView, instance: &Instance) -> NodePlan {
    plan(node, instance, &Policy::default()).unwrap()
}

/// A kubelet without `--cloud-provider=external`, or another client has removed the taint.
#[test]
fn a_node_without_the_taint_and_without_a_provider_id_says_how_it_is_initialised() {
    let (mut node, mut instance) = in_sync();
    node.provider_id = "".into();
    let warnings = planned(&node, &instance).warnings;
    assert_eq!(warnings, [NodeWarning::not_initialized()]);
    assert!(warnings[0].text.contains("--cloud-provider=external"));
    // A cloud without provider IDs.
    instance.provider_id = "".into();
    assert!(planned(&node, &instance).warnings.is_empty());
}

/// Upstream's gate of 1.38: each key of the instance, its own domains aside.
#[test]
fn with_the_gate_each_additional_label_is_kept_in_sync_and_none_is_removed() {
    let (node, mut instance) = in_sync();
    let additional = [
        ("example.com/rack", "8"),
        ("example.com/row", "2"),
        ("kubernetes.io/x", "y"),
    ];
    instance.additional_labels = map(&additional);
    let labels = |manages_additional_labels| {
        let policy = Policy {
            manages_additional_labels,
            ..Policy::default()
        };
        let change = plan(&node, &instance, &policy).unwrap().change;
        let labels = change.map(|change| change.labels).unwrap_or_default();
        labels
            .iter()
            .map(|label| (label.key.to_string(), label.value.to_string()))
            .collect::<Vec<_>>()
    };
    assert!(labels(false).is_empty());
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        labels(true),
        [text("example.com/rack", "8"), text("example.com/row", "2")]
    );
    instance.additional_labels = map(&[]);
    assert!(
        plan(
            &node,
            &instance,
            &Policy {
                manages_additional_labels: true,
                ..Policy::default()
            }
        )
        .unwrap()
        .is_empty()
    );
}

#[test]
fn n35_and_managed_labels_are_one_change() {
    let (node, instance) = in_sync();
    let node = NodeView {
        labels: node.labels.with([(labels::REGION_BETA, "r1")]),
        ..node
    };
    let instance = Instance {
        zone: "z2".into(),
        additional_labels: map(&[("example.com/rack", "8"), ("example.com/row", "1")]),
        ..instance
    };
    let policy = managing(&[labels::ZONE, "example.com/rack"]);
    let expected = NodeChange {
        labels: vec![
            write("example.com/rack", "8", false),
            write(labels::REGION, "r1", false),
            write(labels::ZONE, "z2", false),
        ],
        ..NodeChange::default()
    };
    let planned = plan(&node, &instance, &policy).unwrap();
    assert_eq!(planned.change, Some(expected));
}

/// A machine that was made again under its old name.
#[test]
fn another_instance_is_reported_and_changes_no_field() {
    let (node, instance) = in_sync();
    let node = NodeView {
        labels: map(&[(labels::ZONE_BETA, "z9")]),
        ..node
    };
    let instance = Instance {
        provider_id: "mock://i-2".into(),
        addresses: addresses("InternalIP=10.0.0.6"),
        ..instance
    };
    let plan = plan(&node, &instance, &managing(&[labels::ZONE])).unwrap();
    assert!(plan.is_empty());
    let text = r#"the provider answers with instance "mock://i-2" for the node of instance "mock://i-1": nothing is taken from it"#;
    assert_eq!(plan.warnings, [NodeWarning::provider_id(text.to_owned())]);
    // An answer without an id was asked for by the node's.
    let unnamed = Instance {
        provider_id: "".into(),
        ..instance
    };
    assert!(!planned(&node, &unnamed).is_empty());
}

/// All IDs of a cloud got a region: the node follows its machine all the same, and keeps its own.
#[test]
fn another_spelling_of_the_provider_id_freezes_no_node() {
    let (node, instance) = in_sync();
    let node = NodeView {
        labels: map(&[(labels::ZONE_BETA, "z1"), (labels::ZONE, "z9")]),
        ..node
    };
    let instance = Instance {
        provider_id: "mock://region-1/i-1".into(),
        addresses: addresses("InternalIP=10.0.0.6"),
        ..instance
    };
    let plan = planned(&node, &instance);
    let after = written(&node, &plan);
    assert!(after.addresses.starts_with(&instance.addresses));
    assert_eq!(after.labels.get(labels::ZONE), Some("z1"));
    assert_eq!(after.provider_id, node.provider_id);
    let warnings = plan.warnings.iter();
    let said: Vec<_> = warnings.map(|w| (w.event, w.to_string())).collect();
    let text = "the provider calls the instance \"mock://region-1/i-1\" and the node has \"mock://i-1\": taken for \
                two spellings of one provider ID; the node keeps its own";
    assert_eq!(said, [(Some("ProviderIDMismatch"), text.to_owned())]);
}

#[test]
fn a_faulty_address_has_an_event_and_the_others_are_written() {
    let (node, instance) = in_sync();
    let instance = Instance {
        addresses: addresses("InternalIP=10.0.0.6"),
        faulty_addresses: ["none".into()].into(),
        ..instance
    };
    let plan = planned(&node, &instance);
    assert!(
        written(&node, &plan)
            .addresses
            .starts_with(&instance.addresses)
    );
    let said: Vec<_> = plan.warnings.iter().map(|w| w.event).collect();
    assert_eq!(said, [Some("InvalidAddress")]);
}

proptest! {
    #[test]
    fn a_plan_touches_nothing_else(
        node in any_node(),
        instance in any_instance(),
        managed in proptest::collection::vec(proptest::sample::select(vec![
            "rack", "example.com/rack", "kubernetes.io/hostname", "missing",
            labels::ZONE, labels::ZONE_BETA, labels::INSTANCE_TYPE,
            labels::REGION_BETA,
        ]), 0..5),
    ) {
        prop_assume!(!node.is_uninitialized());
        let policy = managing(&managed);
        let first = plan(&node, &instance, &policy).unwrap();
        let after = written(&node, &first);
        let second = plan(&after, &instance, &policy).unwrap();
        prop_assert_eq!(&second.warnings, &first.warnings);

        prop_assert_eq!(&after.provider_id, &node.provider_id);
        prop_assert_eq!(&after.taints, &node.taints);
        let generations = [
            (labels::ZONE_BETA, labels::ZONE),
            (labels::REGION_BETA, labels::REGION),
            (labels::INSTANCE_TYPE_BETA, labels::INSTANCE_TYPE),
        ];
        let of_generation = |key: &str| generations.iter().find(|(b, s)| key == *b || key == *s);
        for (key, value) in after.labels.iter() {
            if node.labels.get(key) == Some(value) {
                continue;
            }
            let is_managed = |key: &str| managed.contains(&key);
            if let Some((beta, stable)) = of_generation(key) {
                let promoted = key == *stable && node.labels.get(beta) == Some(value);
                prop_assert!(promoted || is_managed(beta) || is_managed(stable), "{key}={value}");
            } else {
                prop_assert!(is_managed(key) && !is_reserved(key), "{key}={value}");
                prop_assert_eq!(instance.additional_labels.get(key), Some(value));
            }
        }
        prop_assert!(node.labels.iter().all(|(key, _)| after.labels.contains_key(key)));
    }

    #[test]
    fn managed_labels_are_in_sync_afterwards(node in any_node(), instance in any_instance()) {
        prop_assume!(!node.is_uninitialized() && !instance.is_other_than(&node));
        let policy = managing(&[labels::ZONE, labels::REGION_BETA, "rack"]);
        let after = written(&node, &plan(&node, &instance, &policy).unwrap());
        for (key, value) in [
            (labels::ZONE, &*instance.zone),
            (labels::REGION_BETA, &instance.region),
            (labels::REGION, &instance.region),
        ] {
            prop_assert!(value.is_empty() || after.labels.get(key) == Some(value), "{key}");
        }
        if let Some(rack) = instance.additional_labels.get("rack") {
            prop_assert_eq!(after.labels.get("rack"), Some(rack));
        }
    }
}
