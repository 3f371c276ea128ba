//! A declared capability is served, and one that is not declared is not.

use outrigger_api::{
    METHODS, MethodRequest as _,
    v1::{BatchGetInstancesRequest, ErrorReason},
};
use tonic::Code;

use crate::{
    call_error::CallError,
    capability::Capability,
    case::{Check, check},
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("IDN-30", declared_is_served),
        check("IDN-31", undeclared_is_not_served),
        check("IDN-32", no_state_per_connection),
    ]
}

fn not_served(error: &CallError) -> bool {
    error.code == Code::Unimplemented || error.is(ErrorReason::CapabilityDisabled)
}

async fn declared_is_served(subject: &Subject) -> Verdict {
    for method in subject.declared_methods() {
        if let Err(error) = subject.client.probe(method).await {
            let (name, by) = (method.name, Capability::of(method).declared_by());
            let expected = format!("{name} is served, since {by} is declared");
            expect(!not_served(&error), expected, error)?;
        }
    }
    Ok(())
}

async fn undeclared_is_not_served(subject: &Subject) -> Verdict {
    for method in METHODS {
        let capability = Capability::of(method);
        if subject.declares(capability) {
            continue;
        }
        let (name, by) = (method.name, capability.declared_by());
        let expected = format!("{name} is UNIMPLEMENTED, since {by} is not declared");
        match subject.client.probe(method).await {
            Ok(()) => return Err(failed(expected, "it is answered")),
            Err(error) => expect(not_served(&error), expected, error)?,
        }
    }
    Ok(())
}

async fn no_state_per_connection(subject: &Subject) -> Verdict {
    // The handshake of the case is on another connection.
    let other = subject.dial().await?;
    match other.probe(BatchGetInstancesRequest::METHOD).await {
        Err(error) if error.is(ErrorReason::NotHandshaked) => Err(failed(
            "a handshake on one connection counts for all of the process",
            error,
        )),
        _ => Ok(()),
    }
}
