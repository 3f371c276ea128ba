//! The provider ID: written once, and never changed.

use super::*;

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
    assert_eq!(change.remove_taints, [cloud_taint(0)]);
    // Where it has one all the same, it is set.
    let change = plan(&registered("n6"), &full(), &policy)
        .unwrap()
        .change
        .unwrap();
    assert_eq!(change.provider_id.as_deref(), Some("mock://i-1"));
}
