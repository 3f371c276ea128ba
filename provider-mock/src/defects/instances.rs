//! Mistakes about instances, one by one and in lists.

mod content;

use outrigger_api::v1::{
    AbsenceCertainty, Absent, BatchGetInstancesRequest, ErrorReason, InstanceResult,
    ListInstancesRequest, Node, PowerState, instance_result::Outcome,
};

use super::hook::Next;
use super::{Defect, item};
use crate::exchange::{Answer, Call};
use crate::faults::BadAnswer;

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        Defect::new("list-of-instances-never-complete").never_complete::<ListInstancesRequest>(),
        Defect::new("lists-an-instance-twice")
            .bad_answer::<ListInstancesRequest>(BadAnswer::DuplicateResult),
        Defect::new("lists-no-instances")
            .bad_answer::<ListInstancesRequest>(BadAnswer::MissingResult),
        Defect::new("lists-in-one-message")
            .bad_answer::<ListInstancesRequest>(BadAnswer::OversizedReply),
        outcomes("spells-ids-differently", |_, _, outcome| {
            if let Outcome::Found(instance) = outcome {
                let zonal = format!("://{}/", instance.zone);
                instance.provider_id = instance.provider_id.replacen("://", &zonal, 1);
            }
        }),
        outcomes("no-lookup-by-name", |_, node, outcome| {
            if node.provider_id.is_empty() {
                *outcome = absent();
            }
        }),
        outcomes("uncertain-absence", |_, _, outcome| {
            if let Outcome::Absent(absent) = outcome {
                *absent = Absent::default();
            }
        }),
        outcomes("no-answer-from-the-cache", |request, _, outcome| {
            let stale = request.max_staleness.unwrap_or_default();
            if stale.seconds > 0 && matches!(outcome, Outcome::Absent(_)) {
                let error = item(ErrorReason::DependencyNotReady, "not in the cache");
                *outcome = Outcome::Error(error);
            }
        }),
        Defect::new("absent-while-the-cloud-fails").while_the_cloud_fails(absent),
        outcomes("foreign-is-absent", |_, _, outcome| {
            if let Outcome::NotManaged(_) = outcome {
                *outcome = absent();
            }
        }),
        outcomes("stopped-is-absent", |_, _, outcome| {
            if let Outcome::Found(instance) = outcome
                && instance.power_state() == PowerState::Shutdown
            {
                *outcome = absent();
            }
        }),
        outcomes("confirms-from-the-cache", |_, _, outcome| {
            if let Outcome::Absent(absent) = outcome {
                absent.age = Some(prost_types::Duration {
                    seconds: 3600,
                    nanos: 0,
                });
            }
        }),
        name_before_provider_id(),
        falls_back_to_the_name(),
        outcomes("unknown-name-is-an-error", |_, node, outcome| {
            if node.provider_id.is_empty() && matches!(outcome, Outcome::Absent(_)) {
                let error = item(ErrorReason::CloudError, "404: no such server");
                *outcome = Outcome::Error(error);
            }
        }),
        results("malformed-fails-the-call", |results| {
            let errors = results.iter().find_map(|one| match &one.outcome {
                Some(Outcome::Error(error)) => Some(error.message.clone()),
                _ => None,
            });
            errors.map(|text| super::refusal(ErrorReason::MalformedProviderId, &text))
        }),
        results("first-page-of-a-batch", |results| {
            results.truncate(100);
            None
        }),
        results("foreign-node-fails-the-batch", |results| {
            let foreign = results.iter().map(|one| one.outcome.clone());
            let foreign = foreign.flatten();
            let foreign = { foreign }.find(|one| matches!(one, Outcome::NotManaged(_)));
            if let Some(foreign) = foreign {
                for one in results {
                    one.outcome = Some(foreign.clone());
                }
            }
            None
        }),
    ];
    defects.extend(content::defects());
    defects
}

fn absent() -> Outcome {
    Outcome::Absent(Absent {
        certainty: AbsenceCertainty::Confirmed.into(),
        ..Absent::default()
    })
}

/// Changes the outcome of each node.
fn outcomes(
    name: &'static str,
    change: fn(&BatchGetInstancesRequest, &Node, &mut Outcome),
) -> Defect {
    Defect::new(name).outcomes(change)
}

/// Changes the results of a call together, or makes an error of them.
fn results(
    name: &'static str,
    change: fn(&mut Vec<InstanceResult>) -> Option<tonic::Status>,
) -> Defect {
    Defect::new(name).call::<BatchGetInstancesRequest, _>(move |call, next| async move {
        let mut answer = next.serve(call).await;
        let mut error = None;
        answer.results(|results| error = change(results));
        error.map_or(answer, Answer::failed)
    })
}

/// The results of the same lookup by the names of its nodes alone.
async fn by_name(call: &Call, next: &Next) -> Vec<InstanceResult> {
    let mut request: BatchGetInstancesRequest = call.message();
    for node in &mut request.items {
        node.provider_id.clear();
    }
    let answers = next.ask(call, &request).await;
    answers.into_iter().flat_map(|one| one.results).collect()
}

/// Answers a node as by its name, if `prefers` wants it instead of the correct outcome.
fn named(name: &'static str, prefers: fn(&Outcome) -> bool) -> Defect {
    let around = move |call: Call, next: Next| async move {
        let by_name = by_name(&call, &next).await;
        let mut answer = next.serve(call).await;
        answer.results(|results| {
            for result in results {
                let same = |one: &&InstanceResult| one.key == result.key;
                let other = by_name.iter().find(same);
                let other = other.and_then(|one| one.outcome.clone());
                let is_found = matches!(other, Some(Outcome::Found(_)));
                if is_found && result.outcome.as_ref().is_some_and(prefers) {
                    result.outcome = other;
                }
            }
        });
        answer
    };
    Defect::new(name).call::<BatchGetInstancesRequest, _>(around)
}

fn name_before_provider_id() -> Defect {
    named("name-before-provider-id", |_| true)
}

fn falls_back_to_the_name() -> Defect {
    named("falls-back-to-the-name", |outcome| {
        matches!(outcome, Outcome::Absent(_))
    })
}
