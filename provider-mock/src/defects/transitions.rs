//! Mistakes in transitions: each call about a new object is right, and a change leaves something of before behind.

mod memory;

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_api::v1::{EnsureLoadBalancerRequest, Service};

use super::{Defect, kept};
use crate::load_balancers::ANNOTATION_PREFIX;
use memory::{Memory, Spec, remembering};

/// How long a cloud may take, so that calls meet.
const A_WHILE: Duration = Duration::from_millis(20);

pub(super) fn defects() -> Vec<Defect> {
    vec![
        changes("removed-port-stays", |old, new| {
            let ports = new.service.ports.clone();
            let removed = old.service.ports.iter();
            let removed = removed.filter(|old| ports.iter().all(|one| one.port != old.port));
            new.service.ports.extend(removed.cloned());
        }),
        changes("swapped-ports-are-equal", |old, new| {
            let sets = |service: &Service| {
                let ports = service.ports.iter();
                let numbers = ports.clone().map(|one| (one.protocol.clone(), one.port));
                let node_ports = ports.map(|one| one.node_port);
                (
                    numbers.collect::<BTreeSet<_>>(),
                    node_ports.collect::<BTreeSet<_>>(),
                )
            };
            if sets(&old.service) == sets(&new.service) {
                new.service.ports.clone_from(&old.service.ports);
            }
        }),
        changes("health-check-stays", |old, new| {
            if is_local(&old.service) && !is_local(&new.service) {
                let (old, new) = (&old.service, &mut new.service);
                let policy = &mut new.external_traffic_policy;
                policy.clone_from(&old.external_traffic_policy);
                new.health_check_node_port = old.health_check_node_port;
            }
        }),
        changes("emptied-ranges-stay", |old, new| {
            let ranges = &mut new.service.load_balancer_source_ranges;
            if ranges.is_empty() {
                ranges.clone_from(&old.service.load_balancer_source_ranges);
            }
        }),
        changes("second-family-stays", |old, new| {
            let (old, new) = (&old.service.ip_families, &mut new.service.ip_families);
            if old.len() > new.len() && old.first() == new.first() {
                new.clone_from(old);
            }
        }),
        changes("removed-annotation-stays", |old, new| {
            let old = old.service.annotations.iter();
            for (key, value) in old.filter(|(key, _)| key.starts_with(ANNOTATION_PREFIX)) {
                let annotations = &mut new.service.annotations;
                let value = || value.clone();
                annotations.entry(key.clone()).or_insert_with(value);
            }
        }),
        changes("affinity-opens-all", |old, new| {
            if old.service.session_affinity != new.service.session_affinity {
                new.service.load_balancer_source_ranges.clear();
            }
        }),
        changes("last-targets-stay", |old, new| {
            if new.nodes.is_empty() {
                new.nodes.clone_from(&old.nodes);
            }
        }),
        changes("moved-target-keeps-address", |old, new| {
            for (name, node) in &mut new.nodes {
                if let Some(old) = old.nodes.get(name) {
                    node.addresses.clone_from(&old.addresses);
                }
            }
        }),
        remembering(
            Defect::new("name-has-targets-of-before"),
            kept(Memory::by_name(|old, new| {
                if old.service.uid != new.service.uid {
                    new.nodes.clone_from(&old.nodes);
                }
            })),
        ),
        cut_change_is_done(),
    ]
}

/// Makes something else of the desired state of a load balancer that exists.
fn changes(name: &'static str, change: fn(&Spec, &mut Spec)) -> Defect {
    remembering(Defect::new(name), kept(Memory::new(change)))
}

fn is_local(service: &Service) -> bool {
    service.external_traffic_policy == "Local"
}

/// The provider writes the desired state down before the cloud has it.
fn cut_change_is_done() -> Defect {
    let memory = kept(Memory::new(|_, _| ()));
    let defect = Defect::new("cut-change-is-done");
    remembering(defect, memory)
        .cancelled::<EnsureLoadBalancerRequest>(A_WHILE, move |call| memory.cut(&call.message()))
}
