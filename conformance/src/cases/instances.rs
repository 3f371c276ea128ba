//! `InstancesService`: lookups and lists.

mod cloud;
mod content;
mod lookups;

use std::time::Duration;

use outrigger_api::v1::{
    BatchGetInstancesRequest, Instance, InstanceView, Node, instance_result::Outcome,
};

use crate::{
    call_error::CallError,
    case::Check,
    client::Answered,
    inputs::Machine,
    subject::Subject,
    verdict::{Verdict, failed},
};

pub(super) fn checks() -> Vec<Check> {
    [lookups::checks(), content::checks(), cloud::checks()].concat()
}

/// An ID of another provider, where the inputs name none.
const FOREIGN: &str = "conformance-other-cloud://zone/i-1";

/// A lookup of nodes.
#[derive(Clone, Debug)]
struct Query {
    nodes: Vec<Node>,
    /// An `InstanceView`, or a number that is none.
    view: i32,
    max_staleness: Duration,
}

impl Query {
    /// The question of the controller before it deletes a Node.
    fn now(nodes: Vec<Node>) -> Self {
        Self {
            nodes,
            view: InstanceView::Metadata.into(),
            max_staleness: Duration::ZERO,
        }
    }
}

/// The outcome of a node, or its error.
type Answer = Answered;

impl Subject {
    /// The outcomes of a lookup in the order of its nodes; fails if the call does.
    async fn look_up(&self, query: Query) -> Verdict<Vec<Answer>> {
        Ok(self.ask(query).await??)
    }

    /// The same, or the error of the call.
    async fn ask(&self, query: Query) -> Verdict<Result<Vec<Answer>, CallError>> {
        let request = BatchGetInstancesRequest {
            items: query.nodes,
            max_staleness: query.max_staleness.try_into().ok(),
            view: query.view,
            ..BatchGetInstancesRequest::default()
        };
        self.client.batch(request).await
    }

    /// The instance of a machine that exists.
    async fn found(&self, node: Node, view: impl Into<i32>) -> Verdict<Instance> {
        let expected = format!("{:?} ({:?}) is found", node.name, node.provider_id);
        let query = Query {
            view: view.into(),
            ..Query::now(vec![node])
        };
        match self.look_up(query).await?.remove(0) {
            Ok(Outcome::Found(instance)) => Ok(instance),
            other => Err(failed(expected, outcome(&other))),
        }
    }

    /// The first machine of the inputs that exists.
    fn existing(&self) -> Machine {
        let existing = &self.inputs().instances.existing;
        existing.first().cloned().unwrap_or_default()
    }

    /// The machine of the inputs that does not exist.
    fn absent(&self) -> Machine {
        self.inputs().instances.absent.clone().unwrap_or_default()
    }

    /// The prefixes of the provider IDs that are the provider's.
    fn provider_id_prefixes(&self) -> Vec<String> {
        let declared = self.instances().provider_id_prefixes;
        if declared.is_empty() {
            vec![format!("{}://", self.handshake().provider_name)]
        } else {
            declared
        }
    }
}

/// An outcome, for people.
fn outcome(answer: &Answer) -> String {
    match answer {
        Ok(Outcome::Found(instance)) => format!("found {:?}", instance.provider_id),
        Ok(Outcome::Absent(absent)) => format!("absent, {}", absent.certainty().as_str_name()),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}
