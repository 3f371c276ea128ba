//! Lookups over a cloud that refuses, and what a lookup costs it.

use outrigger_api::v1::{
    ErrorReason, GetStatusRequest, LookupPreference, Readiness, instance_result::Outcome,
};

use super::{Query, outcome};
use crate::{
    call_error::CallError,
    case::{Check, check},
    subject::Subject,
    verdict::{Verdict, expect, failed, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-16", cost),
        check("INS-33", rate_limited),
        check("INS-34", refused_credentials),
        check("IDN-15", degraded),
    ]
}

/// Other work of the provider may call the cloud meanwhile, but not each time.
const TRIES: usize = 3;

async fn cost(subject: &Subject) -> Verdict {
    let preference = subject.instances().lookup_preference();
    if ![LookupPreference::Unspecified, LookupPreference::Batch].contains(&preference) {
        return Err(skipped(format!(
            "the provider declares {}",
            preference.as_str_name()
        )));
    }
    let nodes = subject.target_nodes();
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        let before = subject.cloud_calls().await?;
        subject.look_up(Query::now(nodes.clone())).await?;
        let after = subject.cloud_calls().await?;
        least = least.min(after.saturating_sub(before));
    }
    expect(
        (1..nodes.len() as u64).contains(&least),
        format!(
            "a lookup of {} nodes is at least 1 call to the cloud, and fewer than nodes",
            nodes.len()
        ),
        format!("{least} calls"),
    )
}

/// The error of the first lookup that fails, of the call or of a node; fails if a node is absent.
async fn refusal(subject: &Subject, tries: usize) -> Verdict<Option<CallError>> {
    let node = subject.node(&subject.existing());
    for _ in 0..tries {
        let answer = subject.ask(Query::now(vec![node.clone()])).await?;
        match answer.and_then(|mut answers| answers.remove(0)) {
            Ok(Outcome::Found(_)) => {}
            Err(error) => return Ok(Some(error)),
            other => {
                let expected = "an error while the cloud refuses calls";
                return Err(failed(expected, outcome(&other)));
            }
        }
    }
    Ok(None)
}

/// The rate limit may let a few calls pass.
const CALLS: usize = 20;

async fn rate_limited(subject: &Subject) -> Verdict {
    let check = refusal(subject, CALLS);
    let switch = &subject.inputs().commands.cloud_limited;
    let Some(error) = subject.switched(switch, check).await? else {
        return Err(skipped(format!("none of {CALLS} lookups was refused")));
    };
    let meant = error.is(ErrorReason::RateLimited);
    expect(
        meant && error.retry_after.is_some_and(|wait| !wait.is_zero()),
        "RATE_LIMITED with a RetryInfo",
        error,
    )
}

/// The error of a lookup and the readiness after it, while the cloud refuses the credentials.
async fn without_credentials(subject: &Subject) -> Verdict<(Option<CallError>, Readiness)> {
    let check = async {
        let error = refusal(subject, 1).await?;
        let status = subject.client.call(GetStatusRequest {}).await?;
        Ok((error, status.readiness()))
    };
    let switch = &subject.inputs().commands.credentials_off;
    subject.switched(switch, check).await
}

async fn refused_credentials(subject: &Subject) -> Verdict {
    let (error, readiness) = without_credentials(subject).await?;
    let expected = "CREDENTIALS_INVALID";
    match error {
        Some(error) => expect(error.is(ErrorReason::CredentialsInvalid), expected, error)?,
        None => return Err(failed(expected, "the instance is found")),
    }
    // A restart brings no other credentials, and takes the provider away from its other work.
    expect(
        readiness != Readiness::Broken,
        "GetStatus is not BROKEN after that",
        readiness.as_str_name(),
    )
}

async fn degraded(subject: &Subject) -> Verdict {
    let (_, readiness) = without_credentials(subject).await?;
    expect(
        readiness == Readiness::Degraded,
        "GetStatus is READINESS_DEGRADED after a lookup with refused credentials",
        readiness.as_str_name(),
    )
}
