//! How errors look. The last cases of a run: they judge every error that was seen in it.
//!
//! The cases with a rule of errors judge them in each run, also in one that leaves the cases out.

use outrigger_api::{
    MethodRequest as _, code_name, code_of,
    v1::{BatchGetInstancesRequest, ErrorReason, GetStatusRequest, KubernetesEffects, Node},
};
use tonic::Code;

use crate::{
    call_error::CallError,
    capability::Capability,
    case::{Check, check},
    subject::Subject,
    verdict::{ErrorRule, Required as _, Verdict, expect, failed, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("ERR-01", async |subject| {
            each(subject, reason_and_code).await
        })
        .of_errors(reason_and_code),
        check("ERR-02", async |subject| rate_limited(subject)).of_errors(says_how_long),
        check("ERR-03", async |subject| each(subject, refused_codes).await)
            .of_errors(refused_codes),
        check("ERR-04", secrets),
        check("ERR-05", long_text).of_errors(sizes),
        check("ERR-09", survives),
        check("ERR-10", async |subject| effects(subject)),
        check("ERR-11", async |subject| events(subject)),
    ]
}

/// Calls each method without a key, so that there is something to judge in a run of one case.
async fn provoke(subject: &Subject) -> Verdict {
    for method in subject.declared_methods() {
        // The errors are in the record; an answer is no fault here.
        let _ = subject.client.probe(method).await;
    }
    Ok(())
}

async fn each(subject: &Subject, rule: ErrorRule) -> Verdict {
    provoke(subject).await?;
    let observations = subject.observations();
    if observations.errors.is_empty() {
        return Err(skipped("no error was seen in this run"));
    }
    observations.errors.iter().try_for_each(rule)
}

fn reason_and_code(error: &CallError) -> Verdict {
    if error.infos.is_empty() {
        // Not deliberate, which is no breach: the controller repeats the call.
        return Ok(());
    }
    let one_info = "exactly one ErrorInfo of the domain cloudprovider.v1";
    expect(error.infos.len() == 1, one_info, error)?;
    let Some(reason) = error.reason() else {
        return Err(failed("a reason of ErrorReason, without prefix", error));
    };
    let code = code_name(code_of(reason));
    expect(
        error.has_code_of_its_reason(),
        format!("{} has the code {code}", reason.as_str_name()),
        error,
    )
}

fn refused_codes(error: &CallError) -> Verdict {
    let refused = [Code::NotFound, Code::AlreadyExists, Code::OutOfRange];
    expect(
        !refused.contains(&error.code),
        "a code that the contract uses",
        error,
    )
}

fn sizes(error: &CallError) -> Verdict {
    let (message, details) = (error.message.len(), error.details_bytes);
    expect(
        message <= 1 << 10 && details <= 4 << 10,
        "a message of 1,024 bytes and details of 4,096 at most",
        format!(
            "{message} and {details} bytes in {}: {}",
            error.rpc,
            code_name(error.code)
        ),
    )
}

fn rate_limited(subject: &Subject) -> Verdict {
    let observations = subject.observations();
    let limited = |error: &CallError| error.is(ErrorReason::RateLimited);
    if !observations.errors.iter().any(limited) {
        return Err(skipped("RATE_LIMITED was not seen in this run"));
    }
    observations.errors.iter().try_for_each(says_how_long)
}

fn says_how_long(error: &CallError) -> Verdict {
    let waits = error.retry_after.is_some_and(|wait| !wait.is_zero());
    expect(
        waits || !error.is(ErrorReason::RateLimited),
        "RATE_LIMITED has a RetryInfo above 0",
        error,
    )
}

async fn secrets(subject: &Subject) -> Verdict {
    provoke(subject).await?;
    let methods = subject.observations().with_secrets.into_iter();
    let methods = methods.map(|method| format!("the texts of {method}"));
    let places: Vec<_> = methods.chain(subject.secrets_in_log()).collect();
    // The text is not shown: it holds the secret.
    expect(
        places.is_empty(),
        "answers, errors and a log without the secrets of the inputs",
        format!("one in {}", places.join(", ")),
    )
}

async fn long_text(subject: &Subject) -> Verdict {
    let prefix = subject.instances().provider_id_prefixes.first().cloned();
    let prefix = prefix.unwrap_or_else(|| format!("{}://", subject.handshake().provider_name));
    let mut provider_id = prefix;
    provider_id.push_str(&"x".repeat(1024 - provider_id.len().min(1024)));
    let node = Node {
        provider_id,
        ..subject.unknown_node()
    };
    let request = BatchGetInstancesRequest {
        items: vec![node],
        ..BatchGetInstancesRequest::default()
    };
    // An answer, an error of the item and an error of the call are all within the contract.
    if subject.declares(Capability::Instances) {
        let _ = subject.client.results(request).await;
    }
    each(subject, sizes).await
}

async fn survives(subject: &Subject) -> Verdict {
    provoke(subject).await?;
    let garbage = vec![0xff; 40];
    let method = BatchGetInstancesRequest::METHOD;
    let _ = subject.client.send_bytes(method, garbage).await;
    let answered = subject.client.call(GetStatusRequest {}).await;
    answered.required("GetStatus is answered after malformed requests")?;
    Ok(())
}

fn effects(subject: &Subject) -> Verdict {
    let observations = subject.observations();
    if observations.node_effects.is_empty() && observations.service_effects.is_empty() {
        return Err(skipped("no effects were seen in this run"));
    }
    let Some(declared) = subject.capabilities().effects else {
        return Err(failed(
            "effects only where Capabilities.effects is declared",
            "effects without it",
        ));
    };
    for (list, prefixes) in [
        (
            &observations.node_effects,
            &declared.node_annotation_prefixes,
        ),
        (
            &observations.service_effects,
            &declared.service_annotation_prefixes,
        ),
    ] {
        for effects in list {
            let keys = effects.set_annotations.keys();
            covered(keys.chain(&effects.remove_annotations), prefixes)?;
            let types = effects.conditions.iter().map(|condition| &condition.r#type);
            let types = types.chain(&effects.remove_conditions);
            covered(types, &declared.condition_type_prefixes)?;
        }
    }
    Ok(())
}

fn covered<'a>(mut keys: impl Iterator<Item = &'a String>, prefixes: &[String]) -> Verdict {
    let wrong = keys.find(|key| !prefixes.iter().any(|prefix| key.starts_with(prefix)));
    expect(
        wrong.is_none(),
        format!("keys with one of the prefixes {prefixes:?}"),
        format!("{wrong:?}"),
    )
}

fn events(subject: &Subject) -> Verdict {
    let observations = subject.observations();
    let all: Vec<&KubernetesEffects> = observations
        .node_effects
        .iter()
        .chain(&observations.service_effects)
        .collect();
    if all.iter().all(|effects| effects.events.is_empty()) {
        return Err(skipped("no events were seen in this run"));
    }
    for effects in all {
        expect(
            effects.events.len() <= 10,
            "at most 10 events",
            effects.events.len(),
        )?;
        for event in &effects.events {
            let camel = event.reason.starts_with(|c: char| c.is_ascii_uppercase())
                && event.reason.chars().all(|c| c.is_ascii_alphanumeric());
            let legal = ["Normal", "Warning"].contains(&&*event.r#type)
                && camel
                && event.reason.len() <= 128
                && event.message.len() <= 1024;
            expect(
                legal,
                "Normal or Warning, a CamelCase reason of 128 bytes at most, a message of 1,024",
                format!("{event:?}"),
            )?;
        }
    }
    Ok(())
}
