//! Mistakes in the fields of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_api::v1::{
    BatchGetInstancesRequest, HandshakeRequest, Instance, InstanceView, Node, NodeAddress,
    PowerState, instance_result::Outcome,
};
use parking_lot::Mutex;

use super::outcomes;
use crate::defects::Defect;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        found(
            "zone-for-people",
            "The zone is its name for people, with spaces.",
            &["INS-12", "INS-28"],
            |instance| instance.zone = format!("Zone {} (east)", instance.zone),
        ),
        shuffled_addresses(),
        found(
            "address-with-prefix",
            "An InternalIP has the prefix length of its subnet.",
            &["INS-22"],
            |instance| {
                instance.addresses.push(NodeAddress {
                    r#type: "InternalIP".to_owned(),
                    address: "10.9.9.9/24".to_owned(),
                });
            },
        ),
        found(
            "labels-of-kubernetes",
            "The provider sets the role of a Node as a label.",
            &["INS-23"],
            |instance| {
                let key = "node-role.kubernetes.io/worker".to_owned();
                instance.additional_labels.insert(key, String::new());
            },
        ),
        Defect::new(
            "undeclared-prefix",
            "Provider IDs begin with another prefix than the one that was declared.",
            &["INS-24"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            let declared = answer.capabilities.get_or_insert_default();
            let instances = declared.instances.get_or_insert_default();
            instances.provider_id_prefixes = vec!["mock2://".to_owned()];
        }),
        found(
            "running-without-state",
            "A running instance has no power state.",
            &["INS-25"],
            |instance| {
                if instance.power_state() == PowerState::Running {
                    instance.set_power_state(PowerState::Unspecified);
                }
            },
        ),
        outcomes(
            "unknown-view-is-state",
            "A view that the provider does not know is read as the shortest one.",
            &["INS-26"],
            |request, _, outcome| {
                if let Outcome::Found(instance) = outcome
                    && InstanceView::try_from(request.view).is_err()
                {
                    *instance = Instance {
                        provider_id: instance.provider_id.clone(),
                        power_state: instance.power_state,
                        ..Instance::default()
                    };
                }
            },
        ),
        found(
            "pod-cidr-with-host-bits",
            "The Pod CIDR is the address of the instance's interface.",
            &["INS-27"],
            |instance| instance.pod_cidrs = vec!["10.244.1.1/24".to_owned()],
        ),
        found(
            "region-as-zone",
            "The zone is that of another call, the region.",
            &["INS-28"],
            |instance| instance.zone.clone_from(&instance.region),
        ),
    ]
}

/// Changes each instance that is found.
fn found(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: fn(&mut Instance),
) -> Defect {
    let each = move |_: &BatchGetInstancesRequest, _: &_, outcome: &mut Outcome| {
        if let Outcome::Found(instance) = outcome {
            change(instance);
        }
    };
    Defect::new(name, sentence, cases).outcomes(each)
}

/// The order changes with each lookup, as that of a hash table does.
fn shuffled_addresses() -> Defect {
    let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let shuffle = move |request: &BatchGetInstancesRequest, node: &Node, outcome: &mut Outcome| {
        if request.view() != InstanceView::Metadata {
            return;
        }
        let mut asked = asked.lock();
        let count = asked.entry(node.name.clone()).or_default();
        *count += 1;
        if let Outcome::Found(instance) = outcome
            && count.is_multiple_of(2)
        {
            instance.addresses.reverse();
        }
    };
    Defect::new(
        "shuffled-addresses",
        "The addresses of an instance come in the order of a hash table.",
        &["INS-21"],
    )
    .outcomes(shuffle)
}
