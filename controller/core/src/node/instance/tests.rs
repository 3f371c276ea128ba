use super::Instance;
use crate::{fixture::registered, node::NodeView};

/// A node and a machine with these provider IDs.
fn pair(of_node: &str, id: &str) -> (NodeView, Instance) {
    let node = NodeView {
        provider_id: of_node.into(),
        ..registered("n1")
    };
    let instance = Instance {
        provider_id: id.into(),
        ..Instance::default()
    };
    (node, instance)
}

#[test]
fn another_spelling_of_a_provider_id_is_the_same_machine() {
    for (of_node, id) in [
        // A kubelet's own --provider-id, and a cloud that names the zone.
        ("lab://f-1", "lab://zone-a/f-1"),
        // A region became part of all IDs.
        ("openstack:///6d2", "openstack://region-1/6d2"),
        (
            "azure:///groups/RG/machines/VM1",
            "azure:///groups/rg/machines/vm1",
        ),
    ] {
        let (node, instance) = pair(of_node, id);
        assert!(!instance.is_other_than(&node), "{of_node} {id}");
        assert!(instance.is_spelled_otherwise(&node), "{of_node} {id}");
    }
    for (of_node, id, is_other) in [
        ("lab://f-1", "lab://f-1", false),
        ("", "lab://f-1", false),
        ("lab://f-1", "", false),
        ("lab://f-1", "lab://f-2", true),
        ("lab://zone-a/f-1", "lab://zone-a/f-11", true),
    ] {
        let (node, instance) = pair(of_node, id);
        assert_eq!(instance.is_other_than(&node), is_other, "{of_node} {id}");
        assert!(!instance.is_spelled_otherwise(&node), "{of_node} {id}");
    }
}
