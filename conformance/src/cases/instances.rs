//! `InstancesService`: lookups and lists.

mod batches;
mod cloud;
mod content;
mod lists;
mod lookups;

use std::time::Duration;

use outrigger_api::v1::{
    AbsenceCertainty, BatchGetInstancesRequest, Instance, InstanceResult, InstanceView, Node,
    instance_result::Outcome,
};

use crate::{
    case::Case,
    client::{CallError, Client},
    inputs::Machine,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = lookups::cases();
    cases.extend(batches::cases());
    cases.extend(content::cases());
    cases.extend(lists::cases());
    cases.extend(cloud::cases());
    cases
}

/// A lookup of nodes.
#[derive(Clone, Debug)]
struct Query {
    nodes: Vec<Node>,
    view: InstanceView,
    max_staleness: Duration,
}

impl Query {
    /// As the controller asks before it deletes a Node.
    fn now(nodes: Vec<Node>) -> Self {
        Self {
            nodes,
            view: InstanceView::Metadata,
            max_staleness: Duration::ZERO,
        }
    }
}

impl Subject {
    /// The results of a lookup, exactly one for each node, in the order of the request.
    async fn look_up(&self, client: &Client, query: Query) -> Verdict<Vec<InstanceResult>> {
        let names: Vec<_> = query.nodes.iter().map(|node| node.name.clone()).collect();
        let results = self.ask(client, query).await?;
        one_each(&names, &results)
    }

    /// The results as they came.
    async fn ask(&self, client: &Client, query: Query) -> Result<Vec<InstanceResult>, CallError> {
        let request = BatchGetInstancesRequest {
            context: self.context(),
            nodes: query.nodes,
            max_staleness: query.max_staleness.try_into().ok(),
            view: query.view.into(),
        };
        Ok(client.batch_get_instances(request).await?.results)
    }

    /// The instance of a machine that exists.
    async fn found(&self, client: &Client, node: Node, view: InstanceView) -> Verdict<Instance> {
        let query = Query {
            view,
            ..Query::now(vec![node.clone()])
        };
        let result = self.look_up(client, query).await?.remove(0);
        match result.outcome {
            Some(Outcome::Found(instance)) => Ok(instance),
            other => Err(failed(
                format!("{:?} ({:?}) is found", node.name, node.provider_id),
                outcome(other.as_ref()),
            )),
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

/// Holds results against "exactly one per requested node".
fn one_each(names: &[String], results: &[InstanceResult]) -> Verdict<Vec<InstanceResult>> {
    let mut ordered = Vec::with_capacity(names.len());
    for name in names {
        let of_it = results.iter().filter(|result| result.node_name == *name);
        let of_it: Vec<_> = of_it.collect();
        expect(
            of_it.len() == 1,
            format!("one result for the node {name:?}"),
            format!("{}", of_it.len()),
        )?;
        ordered.extend(of_it.into_iter().cloned());
    }
    let foreign = results.iter().find(|one| !names.contains(&one.node_name));
    expect(
        foreign.is_none(),
        "no result for a node that was not asked about",
        format!("one for {:?}", foreign.map(|one| &one.node_name)),
    )?;
    Ok(ordered)
}

/// An outcome, for people.
fn outcome(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "a result without an outcome".to_owned(),
        Some(Outcome::Found(instance)) => format!("found {:?}", instance.provider_id),
        Some(Outcome::Absent(absent)) => match absent.certainty() {
            AbsenceCertainty::Unspecified => "absent, without certainty".to_owned(),
            AbsenceCertainty::Confirmed => "absent, CONFIRMED".to_owned(),
            AbsenceCertainty::NotVisibleYet => "absent, NOT_VISIBLE_YET".to_owned(),
        },
        Some(Outcome::Error(status)) => CallError::of_item("BatchGetInstances", status).to_string(),
        Some(Outcome::NotManaged(of_another)) => format!("not_managed: {:?}", of_another.reason),
    }
}
