//! Mistakes in errors, and in what an answer says to people.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_api::v1::{
    BatchDeleteRoutesRequest, BatchGetInstancesRequest, ErrorReason, GetLoadBalancerRequest,
    HandshakeRequest, KubernetesEffects, Node, instance_result::Outcome, route_result,
};
use parking_lot::Mutex;
use prost::Message as _;
use tonic::{Code, Status};

use super::hook::On;
use super::{Defect, item};
use crate::faults::InjectedError;

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
        .refuses(|request: &GetLoadBalancerRequest| {
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
        .call::<HandshakeRequest, _>(|call, next| {
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
        .outcomes(echo),
        Defect::new(
            "name-as-key",
            "A Service without a UID is looked for by its name.",
            &["ERR-08"],
        )
        .request(|request: &mut GetLoadBalancerRequest| {
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
        .call::<BatchGetInstancesRequest, _>(|call, next| {
            if let Err(error) = BatchGetInstancesRequest::decode(call.first()) {
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
fn echo(_: &BatchGetInstancesRequest, node: &Node, outcome: &mut Outcome) {
    let id = &node.provider_id;
    if id.len() > 256 {
        let text = format!("the provider ID {id} is malformed: {id}");
        *outcome = Outcome::Error(item(ErrorReason::MalformedProviderId, &text));
    }
}

fn effects(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: fn(&mut KubernetesEffects),
) -> Defect {
    Defect::new(name, sentence, cases).results(move |_: &BatchGetInstancesRequest, results| {
        let effects = results.iter_mut().filter_map(|one| one.effects.as_mut());
        effects.for_each(change);
    })
}

/// Each route is deleted at the second try.
fn rate_limited_without_wait() -> Defect {
    let tried: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    Defect::new(
        "rate-limited-without-wait",
        "RATE_LIMITED does not say how long to wait.",
        &["ERR-02"],
    )
    .outcomes(move |_: &BatchDeleteRoutesRequest, route, outcome| {
        if tried.lock().insert(route.destination_cidr.clone()) {
            let limited = InjectedError::new(Code::ResourceExhausted).without_retry_info();
            *outcome = route_result::Outcome::Error(limited.to_item());
        }
    })
}
