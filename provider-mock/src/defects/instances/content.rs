//! Mistakes in the fields of an instance.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_api::v1::{
    BatchGetInstancesRequest, Instance, InstanceView, Node, NodeAddress, PlannedMaintenance,
    PowerState, instance_result::Outcome,
};
use parking_lot::Mutex;

use super::outcomes;
use crate::defects::{Defect, kept};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        found("zone-for-people", |instance| {
            instance.zone = format!("Zone {} (east)", instance.zone);
        }),
        shuffled_addresses(),
        found("address-with-prefix", |instance| {
            instance.addresses.push(NodeAddress {
                r#type: "InternalIP".to_owned(),
                address: "10.9.9.9/24".to_owned(),
            });
        }),
        found("labels-of-kubernetes", |instance| {
            let key = "node-role.kubernetes.io/worker".to_owned();
            instance.additional_labels.insert(key, String::new());
        }),
        Defect::new("undeclared-prefix").declares(|declared| {
            let instances = declared.instances.get_or_insert_default();
            instances.provider_id_prefixes = vec!["mock2://".to_owned()];
        }),
        found("running-without-state", |instance| {
            if instance.power_state() == PowerState::Running {
                instance.set_power_state(PowerState::Unspecified);
            }
        }),
        outcomes("unknown-view-is-state", |request, _, outcome| {
            if let Outcome::Found(instance) = outcome
                && InstanceView::try_from(request.view).is_err()
            {
                *instance = Instance {
                    provider_id: instance.provider_id.clone(),
                    power_state: instance.power_state,
                    ..Instance::default()
                };
            }
        }),
        found("pod-cidr-with-host-bits", |instance| {
            instance.pod_cidrs = vec!["10.244.1.1/24".to_owned()];
        }),
        found("maintenance-in-milliseconds", |instance| {
            maintained(instance, 1_800_000_000_000, 0);
        }),
        found("maintenance-soon", |instance| {
            let now = Timestamp::now();
            maintained(
                instance,
                now.as_second() + 3 * 60 * 60,
                now.subsec_nanosecond(),
            );
        }),
        found("region-as-zone", |instance| {
            instance.zone.clone_from(&instance.region);
        }),
    ]
}

fn maintained(instance: &mut Instance, seconds: i64, nanos: i32) {
    instance.planned_maintenance = Some(PlannedMaintenance {
        starts_at: Some(prost_types::Timestamp { seconds, nanos }),
        reason: "new host".to_owned(),
    });
}

/// Changes each instance that is found.
fn found(name: &'static str, change: fn(&mut Instance)) -> Defect {
    let each = move |_: &BatchGetInstancesRequest, _: &_, outcome: &mut Outcome| {
        if let Outcome::Found(instance) = outcome {
            change(instance);
        }
    };
    Defect::new(name).outcomes(each)
}

/// The order changes with each lookup, as that of a hash table does.
fn shuffled_addresses() -> Defect {
    let counts: &Mutex<BTreeMap<String, usize>> = kept(Mutex::default());
    let shuffle = move |request: &BatchGetInstancesRequest, node: &Node, outcome: &mut Outcome| {
        if request.view() != InstanceView::Metadata {
            return;
        }
        let mut counts = counts.lock();
        let count = counts.entry(node.name.clone()).or_default();
        *count += 1;
        if let Outcome::Found(instance) = outcome
            && count.is_multiple_of(2)
        {
            instance.addresses.reverse();
        }
    };
    Defect::new("shuffled-addresses").outcomes(shuffle)
}
