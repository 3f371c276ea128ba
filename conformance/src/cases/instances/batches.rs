//! Many nodes in one lookup.

use outrigger_api::v1::{ErrorReason, Node, instance_result::Outcome};

use super::{FOREIGN, Query, outcome};
use crate::{
    case::{Check, check},
    subject::{Subject, batch_size},
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-07", malformed),
        check("INS-08", largest_batch),
        check("INS-20", mixed_batch),
    ]
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
