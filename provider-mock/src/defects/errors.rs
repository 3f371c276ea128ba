//! Mistakes in errors, and in what an answer says to people.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_api::v1::{
    BatchDeleteRoutesResponse, BatchGetInstancesRequest, BatchGetInstancesResponse,
    GetLoadBalancerRequest, KubernetesEffects, instance_result::Outcome,
};
use parking_lot::Mutex;
use prost::Message as _;
use tonic::{Code, Status};

use super::Defect;
use super::exchange::On;
use super::handshake::remembering;
use crate::faults::InjectedError;
use crate::faults::Method::{BatchDeleteRoutes, BatchGetInstances, GetLoadBalancer, Handshake};

/// A secret of the cloud, which the inputs of the suite name.
const TOKEN: &str = "a-token-that-no-text-may-have";

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "code-of-its-own",
            "INVALID_REQUEST comes with the code INTERNAL.",
            &["ERR-01"],
        )
        .error(On::Every, |status| match status.code() {
            Code::InvalidArgument => with(Code::Internal, status.message(), &status),
            _ => status,
        }),
        rate_limited_without_wait(),
        Defect::new(
            "not-found",
            "A Get without a Service is NOT_FOUND.",
            &["ERR-03"],
        )
        .refuses(GetLoadBalancer, |request: &GetLoadBalancerRequest| {
            let is_missing = request.service.is_none();
            is_missing.then(|| Status::not_found("there is no such Service"))
        }),
        Defect::new(
            "secret-in-text",
            "An error shows the request to the cloud, its token included.",
            &["ERR-04"],
        )
        .error(On::Every, |status| {
            let text = format!("{} (Authorization: Bearer {TOKEN})", status.message());
            with(status.code(), &text, &status)
        }),
        Defect::new(
            "secret-in-log",
            "The provider logs its token once the controller has connected.",
            &["ERR-12"],
        )
        .around(Handshake, |call, next| {
            eprintln!("provider-mock: the cloud accepts Authorization: Bearer {TOKEN}");
            next.serve(call)
        }),
        Defect::new(
            "long-message",
            "The message of an error is the whole answer of the cloud.",
            // Both judge all errors of the run.
            &["ERR-05", "ERR-06"],
        )
        .error(On::Every, |status| {
            with(status.code(), &"<html>".repeat(400), &status)
        }),
        Defect::new(
            "echoes-provider-id",
            "An error repeats the provider ID twice, of whatever length.",
            &["ERR-06"],
        )
        .answer_to(BatchGetInstances, echo),
        context_of_the_handshake(),
        Defect::new(
            "name-as-key",
            "A Service without a UID is looked for by its name.",
            &["ERR-08"],
        )
        .request(GetLoadBalancer, |request: &mut GetLoadBalancerRequest| {
            if let Some(service) = &mut request.service
                && service.uid.is_empty()
            {
                service.uid.clone_from(&service.name);
            }
        }),
        Defect::new(
            "dies-of-garbage",
            "A request that is no message ends the process.",
            &["ERR-09"],
        )
        .around(BatchGetInstances, |call, next| {
            let first = call.messages.first();
            let read = first.map(|bytes| BatchGetInstancesRequest::decode(bytes.as_slice()));
            if let Some(Err(error)) = read {
                eprintln!("provider-mock: {error}");
                std::process::exit(1);
            }
            next.serve(call)
        }),
        effects(
            "effects-elsewhere",
            "Effects have an annotation outside the prefixes that were declared.",
            &["ERR-10"],
            |effects| {
                let annotations = &mut effects.set_annotations;
                annotations.insert("elsewhere.example/x".to_owned(), "y".to_owned());
            },
        ),
        effects(
            "reason-for-people",
            "The reason of an event is a sentence.",
            &["ERR-11"],
            |effects| {
                for event in &mut effects.events {
                    "The instance is stopped".clone_into(&mut event.reason);
                }
            },
        ),
    ]
}

/// The same error with another code and text.
fn with(code: Code, message: &str, of: &Status) -> Status {
    Status::with_details(code, message, of.details().to_vec().into())
}

/// For nodes with a long provider ID.
fn echo(request: &BatchGetInstancesRequest, answer: &mut BatchGetInstancesResponse) {
    for result in &mut answer.results {
        let named = |node: &&outrigger_api::v1::Node| node.name == result.node_name;
        let Some(node) = request.nodes.iter().find(named) else {
            continue;
        };
        let id = &node.provider_id;
        if id.len() > 256 {
            let text = format!("the provider ID {id} is malformed: {id}");
            let error = InjectedError::new(Code::InvalidArgument)
                .with_reason("MALFORMED_PROVIDER_ID")
                .with_message(&text);
            result.outcome = Some(Outcome::Error(error.to_item()));
        }
    }
}

fn effects(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: fn(&mut KubernetesEffects),
) -> Defect {
    let each = move |answer: &mut BatchGetInstancesResponse| {
        let results = answer.results.iter_mut();
        let seen = results.filter_map(|result| result.effects.as_mut());
        seen.for_each(change);
    };
    Defect::new(name, sentence, cases).answer(BatchGetInstances, each)
}

/// Each route is deleted at the second try.
fn rate_limited_without_wait() -> Defect {
    let tried: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let change = move |answer: &mut BatchDeleteRoutesResponse| {
        for result in &mut answer.results {
            if tried.lock().insert(result.destination_cidr.clone()) {
                let limited = InjectedError::new(Code::ResourceExhausted).without_retry_info();
                result.status = Some(limited.to_item());
            }
        }
    };
    Defect::new(
        "rate-limited-without-wait",
        "RATE_LIMITED does not say how long to wait.",
        &["ERR-02"],
    )
    .answer(BatchDeleteRoutes, change)
}

fn context_of_the_handshake() -> Defect {
    let (defect, known) = remembering(Defect::new(
        "context-of-the-handshake",
        "A request without a context is about the cluster of the handshake.",
        &["ERR-07"],
    ));
    defect.request(
        BatchGetInstances,
        move |request: &mut BatchGetInstancesRequest| {
            request.context.get_or_insert_with(|| known.lock().clone());
        },
    )
}
