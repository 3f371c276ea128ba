//! Which outcome a node has.

use std::time::Duration;

use outrigger_api::v1::{
    AbsenceCertainty, ErrorReason, InstanceView, Node, PowerState, instance_result::Outcome,
};
use tokio::time::Instant;

use super::{Query, one_each, outcome};
use crate::{
    case::{Capability::Instances, Case, Input, info, must, should},
    client::CallError,
    inputs::Machine,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

const FILE: &str = "instances.proto";

pub(super) fn cases() -> Vec<Case> {
    vec![
        must("INS-01", "an instance that exists is found by its provider ID")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .clause(FILE, "InstanceResult.found", "The instance exists, running or not.")
            .check(|subject| Box::pin(found_by_provider_id(subject))),
        must("INS-02", "an instance is found by its name when its Node has no provider ID")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .clause(FILE, "BatchGetInstancesRequest.nodes", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(|subject| Box::pin(found_by_name(subject))),
        must("INS-03", "an instance that does not exist is absent and CONFIRMED when no staleness is allowed")
            .of(Instances)
            .needs(Input::AbsentInstance)
            .clause(FILE, "ABSENCE_CERTAINTY_CONFIRMED", "The cloud was asked for this call, with the permission to see every instance of this cluster, answered in full, and has no such instance.")
            .check(|subject| Box::pin(absent_is_confirmed(subject))),
        must("INS-04", "an instance that does not exist is absent when staleness is allowed")
            .of(Instances)
            .needs(Input::AbsentInstance)
            .clause(FILE, "InstanceResult.absent", "The provider looked and there is none.")
            .check(|subject| Box::pin(absent_when_stale(subject))),
        must("INS-05", "while the cloud fails no instance is absent")
            .of(Instances)
            .needs(Input::CloudSwitch)
            .needs(Input::ExistingInstance)
            .clause(FILE, "ABSENCE_CERTAINTY_CONFIRMED", "MUST NOT be said out of a cache.")
            .check(|subject| Box::pin(failing_cloud(subject))),
        must("INS-06", "a node with a provider ID of another provider is not_managed")
            .of(Instances)
            .clause(FILE, "InstanceNotManaged", "Another provider, or none, owns this node.")
            .check(|subject| Box::pin(foreign(subject))),
        must("INS-07", "a malformed provider ID is MALFORMED_PROVIDER_ID for its node alone")
            .of(Instances)
            .needs(Input::MalformedProviderId)
            .clause(FILE, "BatchGetInstances", "An error of one node is its own result; an error of the call says nothing about any node.")
            .check(|subject| Box::pin(malformed(subject))),
        must("INS-08", "a batch of the largest declared size has one result for each node")
            .of(Instances)
            .clause(FILE, "BatchGetInstancesResponse.results", "Exactly one per requested node, any order.")
            .check(|subject| Box::pin(largest_batch(subject))),
        should("INS-09", "a batch beyond the declared size is INVALID_REQUEST")
            .of(Instances)
            .clause(FILE, "BatchGetInstancesRequest.nodes", "1 to InstancesCapability.max_batch_size, no name twice.")
            .check(|subject| Box::pin(too_large_batch(subject))),
        should("INS-10", "a batch without nodes, or with one name twice, is INVALID_REQUEST")
            .of(Instances)
            .clause(FILE, "BatchGetInstancesRequest.nodes", "1 to InstancesCapability.max_batch_size, no name twice.")
            .check(|subject| Box::pin(malformed_batches(subject))),
        must("INS-11", "a stopped instance is found with SHUTDOWN, and not absent")
            .of(Instances)
            .needs(Input::StoppedInstance)
            .clause(FILE, "POWER_STATE_SHUTDOWN", "Stopped, and can be started: the Node gets the shutdown taint and stays.")
            .check(|subject| Box::pin(stopped(subject))),
        must("INS-13", "the age of an absence is not longer than the call where CONFIRMED is said")
            .of(Instances)
            .needs(Input::AbsentInstance)
            .clause(FILE, "InstanceAbsent.age", "How long before this answer the cloud was asked; no clock is compared.")
            .check(|subject| Box::pin(age_of_absence(subject))),
        must("INS-17", "a lookup goes by provider ID, though the Node has another instance's name")
            .of(Instances)
            .needs(Input::TwoExistingInstances)
            .clause(FILE, "BatchGetInstancesRequest.nodes", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(|subject| Box::pin(provider_id_before_name(subject))),
        must("INS-18", "a provider ID that does not exist is not found by the name of its Node")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .needs(Input::AbsentInstance)
            .clause(FILE, "BatchGetInstancesRequest.nodes", "A provider looks up by provider_id; only where that is empty by name, system_uuid or labels.")
            .check(|subject| Box::pin(absent_id_with_known_name(subject))),
        must("INS-19", "a name that no instance has is absent, and no error")
            .of(Instances)
            .clause(FILE, "InstanceResult.absent", "The provider looked and there is none.")
            .check(|subject| Box::pin(unknown_name(subject))),
        must("INS-20", "found, absent and foreign nodes of one batch each have their outcome")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .needs(Input::AbsentInstance)
            .clause(FILE, "BatchGetInstances", "Existence, power state and metadata of many nodes together.")
            .check(|subject| Box::pin(mixed_batch(subject))),
        info("INS-29", "an instance is found by system UUID alone")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .clause("common.proto", "Node.system_uuid", "Clouds without a name for their machines (vSphere, Proxmox) find them by it.")
            .check(|subject| Box::pin(found_by_system_uuid(subject))),
    ]
}

async fn found_by_provider_id(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    for machine in &subject.inputs().instances.existing {
        let node = subject.node(machine);
        let instance = subject.found(&client, node, InstanceView::Metadata).await?;
        expect(
            instance.provider_id == machine.provider_id || subject.instances().without_provider_id,
            format!("{:?} is found with its provider ID", machine.provider_id),
            format!("{:?}", instance.provider_id),
        )?;
    }
    Ok(())
}

async fn found_by_name(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let machine = subject.existing();
    let node = Node {
        provider_id: String::new(),
        ..subject.node(&machine)
    };
    let instance = subject.found(&client, node, InstanceView::Metadata).await?;
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
    let client = subject.connect().await?;
    let node = Node {
        name: subject.name(),
        provider_id: String::new(),
        ..subject.node(&machine)
    };
    subject.found(&client, node, InstanceView::Metadata).await?;
    Ok(())
}

/// The certainty of the absence of a node, and how long ago the cloud was asked.
async fn absence(
    subject: &Subject,
    node: Node,
    max_staleness: Duration,
) -> Verdict<(AbsenceCertainty, Option<Duration>)> {
    let client = subject.connect().await?;
    let query = Query {
        max_staleness,
        ..Query::now(vec![node.clone()])
    };
    let result = subject.look_up(&client, query).await?.remove(0);
    match result.outcome {
        Some(Outcome::Absent(absent)) => {
            let age = absent.age.and_then(|age| age.try_into().ok());
            Ok((absent.certainty(), age))
        }
        other => Err(failed(
            format!("{:?} ({:?}) is absent", node.name, node.provider_id),
            outcome(other.as_ref()),
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
    let machines = subject.inputs().instances.existing.iter();
    let mut nodes: Vec<_> = machines.map(|machine| subject.node(machine)).collect();
    nodes.extend(
        subject
            .inputs()
            .instances
            .absent
            .iter()
            .map(|one| subject.node(one)),
    );
    let names: Vec<_> = nodes.iter().map(|node| node.name.clone()).collect();
    let client = subject.connect().await?;
    let asked = async {
        // An error of the whole call says nothing about any node.
        let Ok(results) = subject.ask(&client, Query::now(nodes.clone())).await else {
            return Ok(());
        };
        for result in one_each(&names, &results)? {
            expect(
                !matches!(result.outcome, Some(Outcome::Absent(_))),
                format!("{:?} is an error while the cloud fails", result.node_name),
                outcome(result.outcome.as_ref()),
            )?;
        }
        Ok(())
    };
    subject.without_cloud(asked).await?;
    let limit = Duration::from_mins(1);
    let look = async || {
        let asked = subject.ask(&client, Query::now(nodes.clone())).await;
        asked.map_err(|error| error.to_string())
    };
    subject
        .wait_for("lookups work again with the cloud", limit, look)
        .await?;
    Ok(())
}

async fn foreign(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let given = subject.inputs().instances.foreign_provider_id.clone();
    let node = subject.node(&Machine {
        node_name: subject.name(),
        provider_id: given.unwrap_or_else(|| "conformance-other-cloud://zone/i-1".to_owned()),
        ..Machine::default()
    });
    let expected = format!("{:?} is not_managed", node.provider_id);
    let result = subject.look_up(&client, Query::now(vec![node])).await?;
    let came = result[0].outcome.as_ref();
    expect(
        matches!(came, Some(Outcome::NotManaged(_))),
        expected,
        outcome(came),
    )
}

async fn malformed(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let wrong = subject.inputs().instances.malformed_provider_id.clone();
    let wrong = subject.node(&Machine {
        node_name: subject.name(),
        provider_id: wrong.unwrap_or_default(),
        ..Machine::default()
    });
    let mut nodes = vec![wrong.clone()];
    let existing = subject.inputs().instances.existing.first();
    nodes.extend(existing.map(|machine| subject.node(machine)));
    let results = subject.look_up(&client, Query::now(nodes)).await?;
    let expected = format!("{:?} is MALFORMED_PROVIDER_ID", wrong.provider_id);
    match &results[0].outcome {
        Some(Outcome::Error(status)) => {
            let error = CallError::of_item("BatchGetInstances", status);
            expect(error.is(ErrorReason::MalformedProviderId), expected, error)?;
        }
        other => return Err(failed(expected, outcome(other.as_ref()))),
    }
    for other in &results[1..] {
        expect(
            matches!(other.outcome, Some(Outcome::Found(_))),
            format!("{:?} beside it is found", other.node_name),
            outcome(other.outcome.as_ref()),
        )?;
    }
    Ok(())
}

/// The nodes of the inputs, and as many more that no instance has.
fn nodes(subject: &Subject, count: usize) -> Vec<Node> {
    let existing = subject.inputs().instances.existing.iter();
    let existing = existing.map(|machine| subject.node(machine));
    let unknown = std::iter::repeat_with(|| {
        subject.node(&Machine {
            node_name: subject.name(),
            ..Machine::default()
        })
    });
    existing.chain(unknown).take(count).collect()
}

fn max_batch_size(subject: &Subject) -> usize {
    match subject.instances().max_batch_size {
        0 => 100,
        size => size as usize,
    }
}

async fn largest_batch(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    // The controller uses no more.
    let size = max_batch_size(subject).min(500);
    let query = Query::now(nodes(subject, size));
    subject.look_up(&client, query).await?;
    Ok(())
}

async fn refused(subject: &Subject, nodes: Vec<Node>, batch: &str) -> Verdict {
    let client = subject.connect().await?;
    let expected = format!("{batch} is INVALID_REQUEST");
    match subject.ask(&client, Query::now(nodes)).await {
        Ok(results) => Err(failed(expected, format!("{} results", results.len()))),
        Err(error) => expect(error.is(ErrorReason::InvalidRequest), expected, error),
    }
}

async fn too_large_batch(subject: &Subject) -> Verdict {
    let size = max_batch_size(subject) + 1;
    let batch = format!("a batch of {size} nodes");
    refused(subject, nodes(subject, size), &batch).await
}

async fn malformed_batches(subject: &Subject) -> Verdict {
    refused(subject, Vec::new(), "a batch without nodes").await?;
    let node = nodes(subject, 1).remove(0);
    let twice = vec![node.clone(), node];
    refused(subject, twice, "a batch with one name twice").await
}

async fn stopped(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let stopped = subject.inputs().instances.stopped.clone();
    let node = subject.node(&stopped.unwrap_or_default());
    let instance = subject.found(&client, node, InstanceView::State).await?;
    expect(
        instance.power_state() == PowerState::Shutdown,
        "power_state SHUTDOWN",
        instance.power_state().as_str_name(),
    )
}

async fn provider_id_before_name(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let existing = &subject.inputs().instances.existing;
    let (first, second) = (&existing[0], &existing[1]);
    let node = Node {
        name: second.node_name.clone(),
        ..subject.node(first)
    };
    let instance = subject.found(&client, node, InstanceView::Metadata).await?;
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
    let node = subject.node(&Machine {
        node_name: subject.name(),
        ..Machine::default()
    });
    absence(subject, node, Duration::ZERO).await?;
    Ok(())
}

async fn mixed_batch(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let foreign = Machine {
        node_name: subject.name(),
        provider_id: "conformance-other-cloud://zone/i-1".to_owned(),
        ..Machine::default()
    };
    let machines = [subject.absent(), foreign, subject.existing()];
    let nodes = machines.iter().map(|machine| subject.node(machine));
    let results = subject
        .look_up(&client, Query::now(nodes.collect()))
        .await?;
    let came: Vec<_> = results
        .iter()
        .map(|one| outcome(one.outcome.as_ref()))
        .collect();
    let right = matches!(results[0].outcome, Some(Outcome::Absent(_)))
        && matches!(results[1].outcome, Some(Outcome::NotManaged(_)))
        && matches!(results[2].outcome, Some(Outcome::Found(_)));
    expect(right, "absent, not_managed, found", came.join(", "))
}
