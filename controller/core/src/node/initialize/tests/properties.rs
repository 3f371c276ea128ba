//! Properties of every node, instance and policy.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    fixture::{any_instance, any_node, written},
    node::{
        NodeView, TAINT_UNINITIALIZED, Taint,
        address::DesiredAddresses,
        change::NodeChange,
        initialize::{InitializationPlan, Policy, addresses, plan, reconcile},
        labels::{self, is_reserved},
    },
};

fn any_policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), proptest::bool::ANY).prop_map(|(without_provider_id, managed)| Policy {
        without_provider_id,
        managed_label_keys: if managed {
            ["rack".into()].into()
        } else {
            [].into()
        },
    })
}

/// Applies the change as the API server applies a JSON patch: one removal after the other.
fn patched(node: &NodeView, change: &NodeChange) -> Vec<Taint> {
    let mut taints = node.taints.to_vec();
    for removal in &change.remove_taints {
        assert_eq!(taints[removal.index].key, removal.key);
        taints.remove(removal.index);
    }
    taints
}

proptest! {
    #[test]
    fn a_plan_that_was_applied_leaves_nothing_to_do(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        if let Ok(first) = plan(&node, &instance, &policy) {
            let Ok(wanted) = addresses(&node, &instance) else {
                // Only those of a node that needs no initialisation may not be checked by its plan.
                prop_assert!(!node.is_uninitialized());
                return Ok(());
            };
            let after = written(&node, first.change.as_ref(), &wanted);
            prop_assert!(!after.is_uninitialized());
            let second = plan(&after, &instance, &policy).unwrap();
            prop_assert_eq!(second.change, None);
            prop_assert_eq!(reconcile(&after), None);
            let again = addresses(&after, &instance);
            prop_assert!(matches!(again, Ok(DesiredAddresses::Unchanged | DesiredAddresses::Untouched)));
            let is_written = first.change.is_some() || matches!(wanted, DesiredAddresses::Changed(_));
            prop_assert_eq!(!is_written, after == node);
        }
    }

    #[test]
    fn the_taint_goes_with_everything_else_or_stays(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        prop_assume!(node.is_uninitialized());
        if let Ok(plan) = plan(&node, &instance, &policy) {
            let change = plan.change.unwrap();
            let after = change.applied_to(&node, "9");
            prop_assert_eq!(&change.uid, &node.uid);
            prop_assert!(policy.without_provider_id || !after.provider_id.is_empty());
            prop_assert!(!after.is_uninitialized());
            if !instance.zone.is_empty() {
                prop_assert_eq!(after.labels.get(labels::ZONE), Some(&*instance.zone));
                prop_assert_eq!(after.labels.get(labels::ZONE_BETA), Some(&*instance.zone));
            }
        }
    }

    #[test]
    fn other_taints_and_foreign_labels_never_change(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        if let Ok(plan) = plan(&node, &instance, &policy) {
            let after = written(&node, plan.change.as_ref(), &DesiredAddresses::Untouched);
            let others: Vec<_> = node.taints.iter().filter(|t| &*t.key != TAINT_UNINITIALIZED).collect();
            prop_assert!(after.taints.iter().eq(others.iter().copied()));
            if let Some(change) = &plan.change {
                prop_assert_eq!(&*patched(&node, change), &*after.taints);
            }
            let ours = [
                labels::ZONE, labels::ZONE_BETA, labels::REGION,
                labels::REGION_BETA, labels::INSTANCE_TYPE, labels::INSTANCE_TYPE_BETA,
            ];
            let before: BTreeMap<_, _> = node.labels.iter().collect();
            for (key, value) in after.labels.iter() {
                if ours.contains(&key) || policy.managed_label_keys.iter().any(|m| **m == *key) {
                    continue;
                }
                let provided = instance.additional_labels.get(key);
                prop_assert_eq!(before.get(key).copied().or(provided), Some(value));
                prop_assert!(before.contains_key(key) || !is_reserved(key), "{}", key);
            }
            prop_assert!(before.keys().all(|key| after.labels.contains_key(key)));
            prop_assert!(node.provider_id.is_empty() || after.provider_id == node.provider_id);
        }
    }

    #[test]
    fn removed_fields_are_absent_and_no_label_is_written_in_vain(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        if let Ok(InitializationPlan { change: Some(change), .. }) = plan(&node, &instance, &policy) {
            for label in &change.labels {
                prop_assert_ne!(node.labels.get(&label.key), Some(&*label.value));
                prop_assert!(!(label.must_be_absent && node.labels.contains_key(&label.key)));
            }
            prop_assert!(change.labels.windows(2).all(|pair| pair[0].key < pair[1].key));
            prop_assert_eq!(change.create_labels, node.labels.is_empty() && !change.labels.is_empty());
        }
    }
}
