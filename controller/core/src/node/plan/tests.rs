use super::{Error, NodePlan, NodeWarning, Policy, plan, repair};
use crate::{
    error_class::ErrorClass,
    fixture::{addresses, map, registered, taints, with_provided_ip, written},
    node::{
        NodeView, TAINT_UNINITIALIZED, Taint,
        change::{LabelWrite, NodeChange},
        instance::Instance,
        labels,
    },
};

mod in_sync;
mod properties;

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

fn planned(node: &NodeView, instance: &Instance) -> Result<NodePlan, Error> {
    plan(node, instance, &Policy::default())
}

/// `node` once it is initialised: its addresses follow from a plan of its own.
fn initialized(node: &NodeView, instance: &Instance) -> NodeView {
    let first = written(node, &planned(node, instance).unwrap());
    written(&first, &planned(&first, instance).unwrap())
}

fn cloud_taint() -> Taint {
    Taint::new(TAINT_UNINITIALIZED, "true", "NoSchedule")
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
    let expected = NodePlan {
        change: Some(NodeChange {
            remove_taints: vec![cloud_taint()],
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
            ..NodeChange::default()
        }),
        ..NodePlan::default()
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

/// N-10, and the taint where another client has added it again.
#[test]
fn n10_what_needs_no_instance_is_repaired_without_one() {
    let node = NodeView {
        taints: taints("a:NoExecute"),
        ..registered("n6")
    };
    assert_eq!(repair(&node), None);
    let node = NodeView {
        labels: map(&[(labels::ZONE_BETA, "z9")]),
        taints: taints("a:NoExecute cloud:NoSchedule"),
        ..node
    };
    let expected = NodeChange {
        remove_taints: vec![Taint::new(TAINT_UNINITIALIZED, "", "NoSchedule")],
        labels: vec![write(labels::ZONE, "z9", false)],
        ..NodeChange::default()
    };
    assert_eq!(repair(&node), Some(expected));
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
    for (before, after) in [
        ("cloud:NoSchedule", ""),
        ("cloud:NoExecute a:NoSchedule", "a:NoSchedule"),
        (
            "a:NoExecute cloud:NoSchedule b:NoSchedule cloud:NoExecute a:NoSchedule",
            "a:NoExecute b:NoSchedule a:NoSchedule",
        ),
        ("cloud: cloud:PreferNoSchedule cloud:Later", ""),
    ] {
        let node = NodeView {
            taints: taints(before),
            ..registered("n6")
        };
        let after = taints(after);
        assert_eq!(initialized(&node, &full()).taints, after, "{before}");
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
    let after = initialized(&node, &instance);
    assert!(!after.is_uninitialized());
    assert_eq!(after.addresses, node.addresses);
}

#[test]
fn n13_n31_the_provider_id_is_set_once() {
    let error = || Err(Error::NoProviderId { node: "n6".into() });
    for (on_node, instance_id, expected) in [
        ("", "mock://i-1", Ok(Some("mock://i-1"))),
        ("mock://i-1", "mock://i-1", Ok(None)),
        ("mock://i-1", "", Ok(None)),
        ("mock://i-1", "mock://other", Ok(None)),
        ("", "", error()),
    ] {
        let node = NodeView {
            provider_id: on_node.into(),
            ..registered("n6")
        };
        let instance = Instance {
            provider_id: instance_id.into(),
            ..full()
        };
        let plan = planned(&node, &instance);
        let set = plan.map(|plan| plan.change.unwrap().provider_id);
        assert_eq!(
            set,
            expected.map(|id| id.map(Into::into)),
            "{on_node} {instance_id}"
        );
    }
}

#[test]
fn n13_another_id_than_the_nodes_is_not_written_but_told() {
    let node = NodeView {
        provider_id: "mock://kept".into(),
        ..registered("n6")
    };
    let warnings = planned(&node, &full()).unwrap().warnings;
    let same = NodeView {
        provider_id: full().provider_id,
        ..node
    };
    assert_eq!(planned(&same, &full()).unwrap().warnings, []);
    let text = r#"discarding provider ID "mock://i-1": the node has "mock://kept" already"#;
    assert_eq!(warnings, [NodeWarning::provider_id(text.to_owned())]);
}

#[test]
fn n31_no_provider_id_at_all_is_upstreams_error() {
    let instance = Instance {
        provider_id: "".into(),
        ..full()
    };
    let error = planned(&registered("n6"), &instance).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cloud provider does not set node provider ID for node n6"
    );
    assert_eq!(error.class(), ErrorClass::Malformed);
}

/// N-32: the old Instances v1 allowed clouds without provider ids.
#[test]
fn n32_a_cloud_without_provider_ids_initialises_all_the_same() {
    let instance = Instance {
        provider_id: "".into(),
        ..full()
    };
    let policy = Policy {
        without_provider_id: true,
        ..Policy::default()
    };
    let change = plan(&registered("n6"), &instance, &policy)
        .unwrap()
        .change
        .unwrap();
    assert_eq!(change.provider_id, None);
    assert_eq!(change.remove_taints, [cloud_taint()]);
    // Where it has one all the same, it is set.
    let change = plan(&registered("n6"), &full(), &policy)
        .unwrap()
        .change
        .unwrap();
    assert_eq!(change.provider_id.as_deref(), Some("mock://i-1"));
}
