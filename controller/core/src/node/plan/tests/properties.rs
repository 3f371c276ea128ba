//! Properties of every node, instance and policy.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    fixture::{any_instance, any_node, written},
    node::{
        TAINT_UNINITIALIZED,
        labels::{self, is_reserved},
        plan::{NodePlan, Policy, plan, repair},
    },
};

fn any_policy() -> impl Strategy<Value = Policy> {
    any::<[bool; 2]>().prop_map(|[without_provider_id, managed]| Policy {
        without_provider_id,
        manages_additional_labels: false,
        managed_label_keys: if managed {
            ["rack".into()].into()
        } else {
            [].into()
        },
    })
}

proptest! {
    #[test]
    fn plans_that_were_applied_leave_nothing_to_do(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        if let Ok(first) = plan(&node, &instance, &policy) {
            let after = written(&node, &first);
            prop_assert!(!after.is_uninitialized());
            prop_assert_eq!(first.is_empty(), after == node);
            // The addresses of one that was initialised follow.
            let second = plan(&after, &instance, &policy).unwrap();
            prop_assert_eq!(&second.change, &None);
            prop_assert!(node.is_uninitialized() || second.is_empty());
            let last = written(&after, &second);
            prop_assert!(plan(&last, &instance, &policy).unwrap().is_empty());
            prop_assert!(instance.is_other_than(&node) || repair(&last).is_none());
        }
    }

    #[test]
    fn other_taints_and_foreign_labels_never_change(
        node in any_node(),
        instance in any_instance(),
        policy in any_policy(),
    ) {
        if let Ok(plan) = plan(&node, &instance, &policy) {
            let after = written(&node, &plan);
            let others: Vec<_> = node.taints.iter().filter(|t| &*t.key != TAINT_UNINITIALIZED).collect();
            prop_assert!(after.taints.iter().eq(others.iter().copied()));
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
        if let Ok(NodePlan { change: Some(change), .. }) = plan(&node, &instance, &policy) {
            for label in &change.labels {
                prop_assert_ne!(node.labels.get(&label.key), Some(&*label.value));
                prop_assert!(!(label.must_be_absent && node.labels.contains_key(&label.key)));
            }
            prop_assert!(change.labels.windows(2).all(|pair| pair[0].key < pair[1].key));
        }
    }
}
