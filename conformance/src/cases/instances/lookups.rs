//! Which outcome a node has.

use std::time::Duration;

use outrigger_api::v1::{
    AbsenceCertainty, InstanceView, Node, PowerState, instance_result::Outcome,
};
use tokio::time::Instant;

use super::{FOREIGN, Query, outcome};
use crate::{
    capability::Capability::Instances,
    case::{Case, info, must},
    needs,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

const FILE: &str = "instances.proto";

pub(super) fn cases() -> Vec<Case> {
    vec![
        must("INS-01", "an instance that exists is found by its provider ID")
            .of(Instances)
            .needs(needs::EXISTING_INSTANCE)
            .clause(FILE, "InstanceResult.found", "The instance exists, running or not.")
            .check(found_by_provider_id),
        must("INS-02", "an instance is found by its name when its Node has no provider ID")
            .of(Instances)
            .needs(needs::EXISTING_INSTANCE)
            .clause(FILE, "BatchGetInstancesRequest.items", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(found_by_name),
        must("INS-03", "an instance that does not exist is absent and CONFIRMED when no staleness is allowed")
            .of(Instances)
            .needs(needs::ABSENT_INSTANCE)
            .clause("common.proto", "ABSENCE_CERTAINTY_CONFIRMED", "The cloud was asked for this call, with the permission to see every object of that kind, answered in full, and has no such object.")
            .check(absent_is_confirmed),
        must("INS-04", "an instance that does not exist is absent when staleness is allowed")
            .of(Instances)
            .needs(needs::ABSENT_INSTANCE)
            .clause(FILE, "InstanceResult.absent", "The provider looked and there is none.")
            .check(absent_when_stale),
        must("INS-05", "while the cloud fails no instance is absent")
            .of(Instances)
            .needs(needs::CLOUD_SWITCH)
            .needs(needs::EXISTING_INSTANCE)
            .clause("common.proto", "ABSENCE_CERTAINTY_CONFIRMED", "MUST NOT be said out of a cache.")
            .check(failing_cloud),
        must("INS-06", "a node with a provider ID of another provider is not_managed")
            .of(Instances)
            .clause(FILE, "InstanceResult.not_managed", "Another provider, or none, owns this node.")
            .check(foreign),
        must("INS-11", "a stopped instance is found with SHUTDOWN, and not absent")
            .of(Instances)
            .needs(needs::STOPPED_INSTANCE)
            .clause(FILE, "POWER_STATE_SHUTDOWN", "Stopped, and can be started: the Node gets the shutdown taint and stays.")
            .check(stopped),
        must("INS-13", "the age of an absence is not longer than the call where CONFIRMED is said")
            .of(Instances)
            .needs(needs::ABSENT_INSTANCE)
            .clause("common.proto", "Absent.age", "How long before this answer the cloud was asked; no clock is compared.")
            .check(age_of_absence),
        must("INS-17", "a lookup goes by provider ID, though the Node has another instance's name")
            .of(Instances)
            .needs(needs::TWO_EXISTING_INSTANCES)
            .clause(FILE, "BatchGetInstancesRequest.items", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(provider_id_before_name),
        must("INS-18", "a provider ID that does not exist is not found by the name of its Node")
            .of(Instances)
            .needs(needs::EXISTING_INSTANCE)
            .needs(needs::ABSENT_INSTANCE)
            .clause(FILE, "BatchGetInstancesRequest.items", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(absent_id_with_known_name),
        must("INS-19", "a name that no instance has is absent, and no error")
            .of(Instances)
            .clause(FILE, "InstanceResult.absent", "The provider looked and there is none.")
            .check(unknown_name),
        info("INS-29", "an instance is found by system UUID alone")
            .of(Instances)
            .needs(needs::EXISTING_INSTANCE)
            .clause("common.proto", "Node.system_uuid", "Clouds without a name for their machines (vSphere, Proxmox) find them by it.")
            .check(found_by_system_uuid),
    ]
}

async fn found_by_provider_id(subject: &Subject) -> Verdict {
    for machine in &subject.inputs().instances.existing {
        let node = subject.node(machine);
        let instance = subject.found(node, InstanceView::Metadata).await?;
        expect(
            instance.provider_id == machine.provider_id || subject.instances().without_provider_id,
            format!("{:?} is found with its provider ID", machine.provider_id),
            format!("{:?}", instance.provider_id),
        )?;
    }
    Ok(())
}

async fn found_by_name(subject: &Subject) -> Verdict {
    let machine = subject.existing();
    let node = Node {
        provider_id: String::new(),
        ..subject.node(&machine)
    };
    let instance = subject.found(node, InstanceView::Metadata).await?;
    expect(
        instance.provider_id == machine.provider_id || subject.instances().without_provider_id,
        format!(
            "{:?} is found as {:?}",
            machine.node_name, machine.provider_id
        ),
        format!("{:?}", instance.provider_id),
    )
}

async fn found_by_system_uuid(subject: &Subject) -> Verdict {
    let machine = subject.existing();
    if machine.system_uuid.is_empty() {
        return Err(crate::verdict::skipped(
            "the first of instances.existing has no systemUUID",
        ));
    }
    let node = Node {
        name: subject.name(),
        provider_id: String::new(),
        ..subject.node(&machine)
    };
    subject.found(node, InstanceView::Metadata).await?;
    Ok(())
}

/// The certainty of the absence of a node, and how long ago the cloud was asked.
async fn absence(
    subject: &Subject,
    node: Node,
    max_staleness: Duration,
) -> Verdict<(AbsenceCertainty, Option<Duration>)> {
    let query = Query {
        max_staleness,
        ..Query::now(vec![node.clone()])
    };
    match subject.look_up(query).await?.remove(0) {
        Ok(Outcome::Absent(absent)) => {
            let age = absent.age.and_then(|age| age.try_into().ok());
            Ok((absent.certainty(), age))
        }
        other => Err(failed(
            format!("{:?} ({:?}) is absent", node.name, node.provider_id),
            outcome(&other),
        )),
    }
}

async fn absent_is_confirmed(subject: &Subject) -> Verdict {
    let node = subject.node(&subject.absent());
    let expected = format!("{:?} is absent, CONFIRMED", node.name);
    let (certainty, _) = absence(subject, node, Duration::ZERO).await?;
    expect(
        certainty == AbsenceCertainty::Confirmed,
        expected,
        certainty.as_str_name(),
    )
}

async fn absent_when_stale(subject: &Subject) -> Verdict {
    let node = subject.node(&subject.absent());
    absence(subject, node, Duration::from_mins(5)).await?;
    Ok(())
}

async fn age_of_absence(subject: &Subject) -> Verdict {
    let node = subject.node(&subject.absent());
    let began = Instant::now();
    let (certainty, age) = absence(subject, node, Duration::ZERO).await?;
    let took = began.elapsed();
    let believed = certainty != AbsenceCertainty::Confirmed || age.is_none_or(|age| age <= took);
    expect(
        believed,
        format!("CONFIRMED with an age of {took:?} at most, which the call took"),
        format!("an age of {age:?}"),
    )
}

async fn failing_cloud(subject: &Subject) -> Verdict {
    let instances = &subject.inputs().instances;
    let machines = instances.existing.iter().chain(&instances.absent);
    let nodes: Vec<_> = machines.map(|machine| subject.node(machine)).collect();
    let check = async {
        // An error of the whole call says nothing about any node.
        let answers = subject.ask(Query::now(nodes.clone())).await?;
        for (node, answer) in nodes.iter().zip(answers.unwrap_or_default()) {
            expect(
                !matches!(answer, Ok(Outcome::Absent(_))),
                format!("{:?} is an error while the cloud fails", node.name),
                outcome(&answer),
            )?;
        }
        Ok(())
    };
    Box::pin(subject.without_cloud(check)).await?;
    let look = async || subject.look_up(Query::now(nodes.clone())).await;
    subject.recovers("lookups", look).await
}

async fn foreign(subject: &Subject) -> Verdict {
    let given = subject.inputs().instances.foreign_provider_id.clone();
    let node = Node {
        provider_id: given.unwrap_or_else(|| FOREIGN.to_owned()),
        ..subject.unknown_node()
    };
    let expected = format!("{:?} is not_managed", node.provider_id);
    let answers = subject.look_up(Query::now(vec![node])).await?;
    expect(
        matches!(answers[0], Ok(Outcome::NotManaged(_))),
        expected,
        outcome(&answers[0]),
    )
}

async fn stopped(subject: &Subject) -> Verdict {
    let stopped = subject.inputs().instances.stopped.clone();
    let node = subject.node(&stopped.unwrap_or_default());
    let instance = subject.found(node, InstanceView::State).await?;
    expect(
        instance.power_state() == PowerState::Shutdown,
        "power_state SHUTDOWN",
        instance.power_state().as_str_name(),
    )
}

async fn provider_id_before_name(subject: &Subject) -> Verdict {
    let existing = &subject.inputs().instances.existing;
    let (first, second) = (&existing[0], &existing[1]);
    let node = Node {
        name: second.node_name.clone(),
        ..subject.node(first)
    };
    let instance = subject.found(node, InstanceView::Metadata).await?;
    expect(
        instance.provider_id == first.provider_id,
        format!(
            "{:?}, which the Node has as its provider ID",
            first.provider_id
        ),
        format!("{:?}", instance.provider_id),
    )
}

async fn absent_id_with_known_name(subject: &Subject) -> Verdict {
    let absent = subject.absent();
    if absent.provider_id.is_empty() {
        return Err(crate::verdict::skipped(
            "instances.absent has no providerID",
        ));
    }
    let node = Node {
        name: subject.existing().node_name,
        ..subject.node(&absent)
    };
    absence(subject, node, Duration::ZERO).await?;
    Ok(())
}

async fn unknown_name(subject: &Subject) -> Verdict {
    absence(subject, subject.unknown_node(), Duration::ZERO).await?;
    Ok(())
}
