//! Which outcome a node has: alone, among others, and in a list.

use std::{collections::BTreeSet, time::Duration};

use outrigger_api::v1::{
    AbsenceCertainty, ErrorReason, InstanceView, ListInstancesRequest, Node, PowerState,
    instance_result::Outcome,
};
use tokio::time::Instant;

use super::{FOREIGN, Query, outcome};
use crate::{
    case::{Check, check},
    cases::complete,
    inputs::Machine,
    subject::{Subject, batch_size},
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-01", found_by_provider_id),
        check("INS-02", found_by_name),
        check("INS-03", absent_is_confirmed),
        check("INS-04", unknown_name),
        check("INS-05", failing_cloud),
        check("INS-06", foreign),
        check("INS-11", stopped),
        check("INS-18", absent_id_with_known_name),
        check("INS-07", malformed),
        check("INS-08", largest_batch),
        check("INS-20", mixed_batch),
        check("INS-14", complete::<ListInstancesRequest>),
        check("INS-31", as_lookups),
    ]
}

async fn found_by_provider_id(subject: &Subject) -> Verdict {
    for machine in &subject.inputs().instances.existing {
        is_found(subject, subject.node(machine), machine).await?;
    }
    Ok(())
}

async fn found_by_name(subject: &Subject) -> Verdict {
    let machine = subject.existing();
    let node = Node {
        provider_id: String::new(),
        ..subject.node(&machine)
    };
    is_found(subject, node, &machine).await
}

/// Fails unless a Node leads to this machine.
async fn is_found(subject: &Subject, node: Node, machine: &Machine) -> Verdict {
    let expected = format!("{:?} is found as {:?}", node.name, machine.provider_id);
    let instance = subject.found(node, InstanceView::Metadata).await?;
    expect(
        instance.provider_id == machine.provider_id || subject.instances().without_provider_id,
        expected,
        format!("{:?}", instance.provider_id),
    )
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
    let name = node.name.clone();
    let began = Instant::now();
    let (certainty, age) = absence(subject, node, Duration::ZERO).await?;
    let took = began.elapsed();
    expect(
        certainty == AbsenceCertainty::Confirmed && age.is_none_or(|age| age <= took),
        format!("{name:?} is absent, CONFIRMED, with an age of {took:?} at most, as the call took"),
        format!("{}, with an age of {age:?}", certainty.as_str_name()),
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
    for max_staleness in [Duration::ZERO, Duration::from_mins(5)] {
        absence(subject, subject.unknown_node(), max_staleness).await?;
    }
    Ok(())
}

async fn malformed(subject: &Subject) -> Verdict {
    let wrong = subject.inputs().instances.malformed_provider_id.clone();
    let wrong = Node {
        provider_id: wrong.unwrap_or_default(),
        ..subject.unknown_node()
    };
    let expected = format!("{:?} is MALFORMED_PROVIDER_ID", wrong.provider_id);
    let mut nodes = vec![wrong];
    let existing = subject.inputs().instances.existing.first();
    nodes.extend(existing.map(|machine| subject.node(machine)));
    let answers = subject.look_up(Query::now(nodes)).await?;
    match &answers[0] {
        Err(error) => expect(error.is(ErrorReason::MalformedProviderId), expected, error)?,
        other => return Err(failed(expected, outcome(other))),
    }
    for other in &answers[1..] {
        expect(
            matches!(other, Ok(Outcome::Found(_))),
            "an instance that exists is found beside it",
            outcome(other),
        )?;
    }
    Ok(())
}

/// The nodes of the inputs, and as many more that no instance has.
fn nodes(subject: &Subject, count: usize) -> Vec<Node> {
    let existing = subject.inputs().instances.existing.iter();
    let existing = existing.map(|machine| subject.node(machine));
    let unknown = std::iter::repeat_with(|| subject.unknown_node());
    existing.chain(unknown).take(count).collect()
}

async fn largest_batch(subject: &Subject) -> Verdict {
    let size = batch_size(subject.instances().max_batch_size);
    let query = Query::now(nodes(subject, size));
    subject.look_up(query).await?;
    Ok(())
}

async fn mixed_batch(subject: &Subject) -> Verdict {
    let foreign = Node {
        provider_id: FOREIGN.to_owned(),
        ..subject.unknown_node()
    };
    let [absent, existing] = [subject.absent(), subject.existing()].map(|one| subject.node(&one));
    let query = Query::now(vec![absent, foreign, existing]);
    let answers = subject.look_up(query).await?;
    let right = matches!(
        &*answers,
        [
            Ok(Outcome::Absent(_)),
            Ok(Outcome::NotManaged(_)),
            Ok(Outcome::Found(_))
        ]
    );
    let actual: Vec<_> = answers.iter().map(outcome).collect();
    expect(right, "absent, not_managed, found", actual.join(", "))
}

async fn as_lookups(subject: &Subject) -> Verdict {
    let request = ListInstancesRequest {
        view: InstanceView::Metadata.into(),
        ..ListInstancesRequest::default()
    };
    let listed = subject.client.list(request).await?.entries;
    let mut ids = BTreeSet::new();
    let all = listed.iter().map(|instance| &*instance.provider_id);
    let mut all = all.filter(|id| !id.is_empty());
    let twice = all.find(|id| !ids.insert(*id));
    let expected = "each provider ID once";
    expect(twice.is_none(), expected, format!("{twice:?} twice"))?;
    for machine in &subject.inputs().instances.existing {
        let id = &*machine.provider_id;
        expect(
            listed.iter().any(|one| one.provider_id == id),
            format!("the list has {id:?}"),
            format!("{} instances without it", listed.len()),
        )?;
    }
    Ok(())
}
