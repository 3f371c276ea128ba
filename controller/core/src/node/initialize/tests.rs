use super::{
    Error, InitializationPlan, NodeWarning, Policy, addresses as desired, plan, reconcile,
};
use crate::{
    error_class::ErrorClass,
    fixture::{addresses, full_node, map, registered, taints, with_provided_ip, written},
    node::{
        NodeView, TAINT_UNINITIALIZED,
        address::DesiredAddresses,
        change::{LabelWrite, NodeChange, TaintRemoval},
        instance::Instance,
        labels,
    },
};

mod properties;
mod provider_id;

/// An instance with all that a provider can say.
fn full() -> Instance {
    Instance {
        provider_id: "mock://i-1".into(),
        instance_type: "large".into(),
        addresses: addresses("InternalIP=10.0.0.5 ExternalIP=198.51.100.7"),
        zone: "z1".into(),
        region: "r1".into(),
        additional_labels: map(&[("example.com/rack", "7")]),
        ..Instance::default()
    }
}

fn planned(node: &NodeView, instance: &Instance) -> Result<InitializationPlan, Error> {
    plan(node, instance, &Policy::default())
}

/// `node` once it is initialised.
fn initialized(node: &NodeView, instance: &Instance) -> NodeView {
    let change = planned(node, instance).unwrap().change;
    written(node, change.as_ref(), &desired(node, instance).unwrap())
}

fn cloud_taint(index: usize) -> TaintRemoval {
    TaintRemoval {
        index,
        key: TAINT_UNINITIALIZED.into(),
        effect: "NoSchedule".into(),
        value: None,
    }
}

fn write(key: &str, value: &str, must_be_absent: bool) -> LabelWrite {
    LabelWrite {
        key: key.into(),
        value: value.into(),
        must_be_absent,
    }
}

/// N-20, Q-3: one change that names what it touches and what it presumes.
#[test]
fn n20_a_registered_node_becomes_initialised_in_one_change() {
    let plan = planned(&registered("n6"), &full()).unwrap();
    let expected = InitializationPlan {
        change: Some(NodeChange {
            uid: "uid-n6".into(),
            remove_taints: vec![cloud_taint(0)],
            provider_id: Some("mock://i-1".into()),
            labels: vec![
                write(labels::INSTANCE_TYPE_BETA, "large", false),
                write("example.com/rack", "7", true),
                write(labels::REGION_BETA, "r1", false),
                write(labels::ZONE_BETA, "z1", false),
                write(labels::INSTANCE_TYPE, "large", false),
                write(labels::REGION, "r1", false),
                write(labels::ZONE, "z1", false),
            ],
            create_labels: true,
        }),
        warnings: Vec::new(),
    };
    assert_eq!(plan, expected);
}

#[test]
fn n20_the_view_after_the_change_is_what_the_api_server_will_send() {
    let node = NodeView {
        labels: map(&[("rack", "mine")]),
        taints: taints("a:NoExecute cloud:NoSchedule b:NoSchedule"),
        ..registered("n6")
    };
    let after = initialized(&node, &full());
    let expected = NodeView {
        resource_version: "9".into(),
        labels: node.labels.with([
            ("example.com/rack", "7"),
            (labels::INSTANCE_TYPE_BETA, "large"),
            (labels::INSTANCE_TYPE, "large"),
            (labels::ZONE_BETA, "z1"),
            (labels::ZONE, "z1"),
            (labels::REGION_BETA, "r1"),
            (labels::REGION, "r1"),
        ]),
        taints: taints("a:NoExecute b:NoSchedule"),
        provider_id: "mock://i-1".into(),
        addresses: addresses("InternalIP=10.0.0.5 ExternalIP=198.51.100.7 Hostname=n6"),
        ..node.clone()
    };
    assert_eq!(after, expected);
    // The first of the two writes, with its own version.
    let first = planned(&node, &full()).unwrap().change.unwrap();
    let first = first.applied_to(&node, "8");
    assert_eq!(
        (&*first.resource_version, &first.addresses),
        ("8", &node.addresses)
    );
}

#[test]
fn a_real_node_is_initialised() {
    let node: NodeView = serde_json::from_value(full_node()).unwrap();
    let plan = planned(&node, &full()).unwrap();
    let change = plan.change.unwrap();
    assert!(!change.create_labels);
    assert_eq!(change.provider_id, None);
    assert_eq!(change.remove_taints, [cloud_taint(0)]);
    assert!(!change.applied_to(&node, "9").is_uninitialized());
}

/// N-10: without the taint nothing but labels is looked at, whatever the instance says.
#[test]
fn n10_an_initialised_node_only_has_its_labels_reconciled() {
    let node = NodeView {
        taints: taints("a:NoExecute"),
        ..registered("n6")
    };
    assert_eq!(planned(&node, &full()), Ok(InitializationPlan::default()));
    // N-13, N-14, N-31: neither an id nor an error comes late.
    let invalid = with_provided_ip(node.clone(), "nonsense");
    assert_eq!(
        planned(&invalid, &Instance::default()),
        Ok(InitializationPlan::default())
    );

    let node = NodeView {
        labels: map(&[(labels::ZONE_BETA, "z9")]),
        ..node
    };
    let expected = InitializationPlan {
        change: Some(NodeChange {
            uid: "uid-n6".into(),
            remove_taints: Vec::new(),
            provider_id: None,
            labels: vec![write(labels::ZONE, "z9", false)],
            create_labels: false,
        }),
        ..InitializationPlan::default()
    };
    assert_eq!(planned(&node, &full()), Ok(expected.clone()));
    assert_eq!(reconcile(&node), expected.change);
}

/// N-14: the addresses lack the IP of the annotation.
#[test]
fn n14_a_provided_ip_that_cannot_be_honoured_keeps_the_taint() {
    let node = with_provided_ip(registered("n6"), "10.0.0.99");
    let error = planned(&node, &full()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to get node modifiers from cloud provider: provided node ip for node \"n6\" is not \
         valid: failed to get node address from cloud provider that matches ip: 10.0.0.99"
    );
    assert_eq!(error.class(), ErrorClass::NotReady);

    let node = with_provided_ip(registered("n6"), "x");
    let error = planned(&node, &full()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to get node modifiers from cloud provider: provided node ip for node \"n6\" is not \
         valid: failed to parse node IP \"x\": could not parse \"x\""
    );
    assert_eq!(error.class(), ErrorClass::Invalid);
}

#[test]
fn n19_every_taint_with_the_key_goes_and_the_others_keep_their_order() {
    for (before, removed, after) in [
        ("cloud:NoSchedule", vec![0], ""),
        ("cloud:NoExecute a:NoSchedule", vec![0], "a:NoSchedule"),
        (
            "a:NoExecute cloud:NoSchedule b:NoSchedule cloud:NoExecute a:NoSchedule",
            // The last one first, so that the other index still holds.
            vec![3, 1],
            "a:NoExecute b:NoSchedule a:NoSchedule",
        ),
        (
            "cloud: cloud:PreferNoSchedule cloud:Later",
            vec![2, 1, 0],
            "",
        ),
    ] {
        let node = NodeView {
            taints: taints(before),
            ..registered("n6")
        };
        let plan = planned(&node, &full()).unwrap();
        let removed = removed.into_iter();
        let removed: Vec<_> = removed
            .map(|index| TaintRemoval {
                index,
                key: node.taints[index].key.clone(),
                effect: node.taints[index].effect.clone(),
                value: None,
            })
            .collect();
        assert_eq!(
            plan.change.as_ref().unwrap().remove_taints,
            removed,
            "{before}"
        );
        assert_eq!(
            initialized(&node, &full()).taints,
            taints(after),
            "{before}"
        );
    }
}

/// N-24.
#[test]
fn n24_no_addresses_are_no_reason_to_keep_the_taint() {
    let instance = Instance {
        addresses: [].into(),
        ..full()
    };
    let node = registered("n6");
    assert_eq!(desired(&node, &instance), Ok(DesiredAddresses::Untouched));
    let plan = planned(&node, &instance).unwrap();
    assert_eq!(plan.change.unwrap().remove_taints, [cloud_taint(0)]);
}
