//! Many nodes in one lookup.

use outrigger_api::v1::{ErrorReason, Node, instance_result::Outcome};

use super::{Query, outcome};
use crate::{
    case::{Capability::Instances, Case, Input, must, should},
    client::CallError,
    inputs::Machine,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

const FILE: &str = "instances.proto";

pub(super) fn cases() -> Vec<Case> {
    vec![
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
        must("INS-20", "found, absent and foreign nodes of one batch each have their outcome")
            .of(Instances)
            .needs(Input::ExistingInstance)
            .needs(Input::AbsentInstance)
            .clause(FILE, "BatchGetInstances", "Existence, power state and metadata of many nodes together.")
            .check(|subject| Box::pin(mixed_batch(subject))),
    ]
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
