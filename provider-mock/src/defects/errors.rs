//! Mistakes in errors, and in what an answer says to people.

use std::collections::BTreeSet;

use outrigger_api::v1::{
    BatchGetInstancesRequest, DeleteRouteRequest, ErrorReason, GetLoadBalancerRequest,
    HandshakeRequest, KubernetesEffects, Node, instance_result::Outcome,
};
use parking_lot::Mutex;
use prost::Message as _;
use tonic::{Code, Status};

use super::hook::On;
use super::{Defect, item, kept};
use crate::exchange::Answer;
use crate::faults::InjectedError;

/// A secret of the cloud, which the inputs of the suite name.
const TOKEN: &str = "a-token-that-no-text-may-have";

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("code-of-its-own").error(On::Every, |status| match status.code() {
            Code::InvalidArgument => with(Code::Internal, status.message(), &status),
            _ => status,
        }),
        rate_limited_without_wait(),
        Defect::new("not-found").refuses(|request: &GetLoadBalancerRequest| {
            let is_missing = request.service.is_none();
            is_missing.then(|| Status::not_found("there is no such Service"))
        }),
        Defect::new("secret-in-text").error(On::Every, |status| {
            let text = format!("{} (Authorization: Bearer {TOKEN})", status.message());
            with(status.code(), &text, &status)
        }),
        Defect::new("secret-in-log").call::<HandshakeRequest, _>(|call, next| {
            eprintln!("provider-mock: the cloud accepts Authorization: Bearer {TOKEN}");
            next.serve(call)
        }),
        Defect::new("long-message").error(On::Every, |status| {
            with(status.code(), &"<html>".repeat(400), &status)
        }),
        Defect::new("echoes-provider-id").outcomes(echo),
        Defect::new("name-as-key").request(|request: &mut GetLoadBalancerRequest| {
            if let Some(service) = &mut request.service
                && service.uid.is_empty()
            {
                service.uid.clone_from(&service.name);
            }
        }),
        Defect::new("dies-of-garbage").call::<BatchGetInstancesRequest, _>(|call, next| {
            if let Err(error) = BatchGetInstancesRequest::decode(call.first()) {
                eprintln!("provider-mock: {error}");
                std::process::exit(1);
            }
            next.serve(call)
        }),
        effects("effects-elsewhere", |effects| {
            let annotations = &mut effects.set_annotations;
            annotations.insert("elsewhere.example/x".to_owned(), "y".to_owned());
        }),
        effects("reason-for-people", |effects| {
            for event in &mut effects.events {
                "The instance is stopped".clone_into(&mut event.reason);
            }
        }),
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

fn effects(name: &'static str, change: fn(&mut KubernetesEffects)) -> Defect {
    Defect::new(name).results(move |_, results| {
        let effects = results.iter_mut().filter_map(|one| one.effects.as_mut());
        effects.for_each(change);
    })
}

/// Each route is deleted at the second try.
fn rate_limited_without_wait() -> Defect {
    let tried: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    Defect::new("rate-limited-without-wait").answered(
        On::of::<DeleteRouteRequest>(),
        move |call, answer| {
            let request: DeleteRouteRequest = call.message();
            let route = request.route.unwrap_or_default();
            if tried.lock().insert(route.destination_cidr) {
                let limited = InjectedError::new(Code::ResourceExhausted).without_retry_info();
                return Answer::failed(limited.to_status());
            }
            answer
        },
    )
}
