//! Turns a correct answer into the one that a fault asks for.

use std::collections::HashSet;

use outrigger_api::v1::{
    BatchGetInstancesResponse, ListInstancesResponse, instance_result::Outcome,
};
use tonic::Status;
use tonic::body::Body;

use super::frames::Answer;
use crate::cloud::Cloud;
use crate::faults::{BadAnswer, Method};
use crate::instances::NodeName;

/// Beyond what any caller accepts that named no limit of its own (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

/// Spoils the answer if a fault wants it; an answer that is an error stays as it is.
pub(super) async fn spoil(cloud: &Cloud, method: Method, body: Body) -> Result<Body, Status> {
    let mut answer = Answer::read(body).await?;
    let names = names_in(&mut answer, method);
    if method == Method::BatchGetInstances {
        fail_items(cloud, &mut answer);
    }
    if names.is_empty() {
        return Ok(answer.into_body());
    }
    // One fault spoils one answer; two would hide each other.
    if let Some((bad, node)) = cloud
        .faults()
        .bad_answer(method, |name| names.contains(name))
    {
        spoil_with(bad, node.as_ref(), cloud, method, &mut answer);
    }
    Ok(answer.into_body())
}

fn names_in(answer: &mut Answer, method: Method) -> HashSet<String> {
    let mut names = HashSet::new();
    match method {
        Method::BatchGetInstances => answer.each(|message: &mut BatchGetInstancesResponse| {
            names.extend(
                message
                    .results
                    .iter()
                    .map(|result| result.node_name.clone()),
            );
        }),
        Method::ListInstances => answer.each(|message: &mut ListInstancesResponse| {
            names.extend(
                message
                    .instances
                    .iter()
                    .map(|instance| instance.node_name.clone()),
            );
        }),
        _ => {}
    }
    names
}

fn fail_items(cloud: &Cloud, answer: &mut Answer) {
    answer.each(|message: &mut BatchGetInstancesResponse| {
        for result in &mut message.results {
            let error = cloud
                .faults()
                .item_error(Method::BatchGetInstances, &result.node_name);
            if let Some(error) = error {
                result.outcome = Some(Outcome::Error(error.to_item()));
            }
        }
    });
}

fn spoil_with(
    bad: BadAnswer,
    node: Option<&NodeName>,
    cloud: &Cloud,
    method: Method,
    answer: &mut Answer,
) {
    let concerns = |name: &str| node.is_none_or(|wanted| wanted.as_str() == name);
    let now = cloud.config().clock.now();
    match method {
        _ if bad == BadAnswer::OversizedReply => answer.inflate(OVERSIZED_BYTES),
        Method::BatchGetInstances => answer.each(|message: &mut BatchGetInstancesResponse| {
            bad.spoil_results(&mut message.results, concerns, now);
        }),
        Method::ListInstances => answer.each(|message: &mut ListInstancesResponse| {
            bad.spoil_list(&mut message.instances, &mut message.complete, concerns);
        }),
        _ => {}
    }
}
